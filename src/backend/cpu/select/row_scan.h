// RowScan: the scores of consecutive summary rows, streamed once for several
// queries.
#ifndef WINNOW_BACKEND_CPU_SELECT_ROW_SCAN_H_
#define WINNOW_BACKEND_CPU_SELECT_ROW_SCAN_H_

#include <functional>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/attend/attend_workspace.h"
#include "backend/cpu/attend/halves_in_turn.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/select/row_scores.h"

namespace winnow {

// One row's q head, and where its scores go.
struct ScanLane {
  int64_t row = 0;
  int64_t q_head = 0;
  float* scores = nullptr;  // [num_scores]: of summary rows 0, 1, ...
  int64_t num_scores = 0;
  int64_t scores_apart = 0;  // from these to those of the next KV head's lane
};

// What is scored: slots of one level of a request, of up to kMaxItemHeads KV
// heads; a key is the slot of its token.
struct ScanTask {
  const SummaryRows& rows;
  const SummaryTable& table;
  const LayerCache& cache;
  const View& q;  // [rows, q_heads, k_dim]
  int level = 0;
  int request = 0;
  int first_kv_head = 0;
  int num_kv_heads = 1;
  int num_lanes = 0;  // a KV head
  // Scores of so many consecutive lanes become one, as ReduceKernel has it, in
  // the first one's place; 0: each lane's stay as they are.
  int reduced_lanes = 0;
  Reduction group = Reduction::kMax;  // how
  ScanLane lanes[kUnitRows] = {};     // of the first KV head
  int64_t q_heads_apart = 0;          // from a KV head's to the next one's

  ScanLane LaneOf(int head, int lane) const {
    ScanLane of = lanes[lane];
    of.q_head += head * q_heads_apart;
    of.scores += head * of.scores_apart;
    return of;
  }
};

class RowScan;

// Slots [first, end) of a scan; of none where that is null.
struct ScanSlots {
  RowScan* scan = nullptr;
  int64_t first = 0;  // a multiple of 32
  int64_t end = 0;
};

// A bound is an inner product too: sum_c max(q_c min_c, q_c max_c) is that of
// the negative parts of q with the least and of the positive ones with the
// greatest. So one kernel serves every kind, and it is attention's own: each
// score is a sum in an order that depends on nothing but its row and query.
//
// Pages of the same number are read one after the other, all its KV heads', as
// they lie in memory but where a kernel takes whole tiles. (Head by head Select
// reached 0.61 of a plain read of quest's summaries for KV heads by one CPU of
// a Zen 5, and 0.76 or 0.55 by two, where that reaches 50 GB/s or 75; now 0.75,
// and 0.81 or 0.66: bench/results/2026-11-25-*-verbs-in-turn.json of d132155
// and, for the last pair, of 2bc54c1.)
class RowScan {
 public:
  // Takes what it needs from `scratch`. REQUIRES: k_dim is a multiple of 16, at
  // most kMaxAttendDim / 2.
  RowScan(const VectorKernels& kernels, ScanTask task, ScratchCutter scratch);

  // Scores slots [first, end), some. Before the last of them calls `next`: what
  // it returns has its first rows fetched meanwhile. REQUIRES: first is a
  // multiple of 32.
  void Run(int64_t first, int64_t end, const std::function<ScanSlots()>& next);

 private:
  // A tile of each KV head.
  struct Tiles {
    TileKeys keys[kMaxItemHeads];
    int count = 0;

    std::span<TileKeys> all() { return {keys, static_cast<size_t>(count)}; }
  };

  // For rows of `dtype`; whether they are scored as bfloat16.
  bool ChooseKernels(const VectorKernels& kernels, Dtype dtype);
  // Each lane's words behind the last one's or, by tile, side by side.
  void PackQueries(int head, float* words) const;
  // Slots that are gathered or widened before they are scored: a page, or a
  // tile where the kernel takes that.
  int64_t CopiedSlots() const;
  // A KV head's row of slot `slot`, as it is stored.
  const std::byte* StoredRow(int head, int64_t slot) const;
  // The tiles of the first slots, whose rows are where they are stored. Where
  // they are gathered, of a half only the first one is there.
  void FindTiles(const ScanSlots& slots, Tiles& to) const;
  // Scores of pages [page, end) of a KV head's tile, which begins at `slot`.
  void ScorePages(int head, int64_t slot, const TileKeys& keys, int page,
                  int end) const;
  // Fetches, to be written, the lines where these scores go: in memory, or with
  // the core that has read the last ones. (Programs in turn many times, by a
  // driver that is not kept, on a Zen 4: with it Select of `mean` was faster
  // and, by less, of `quest` by query head. Three runs each of the ops do not
  // tell it from the noise:
  // record 2026-11-27-bf5438e-fetched-lines-in-turn.json.)
  void PrefetchLinesToWrite(int head, int64_t slot, int page, int end) const;
  // Copies 16 rows, or as many as a tile of `num_slots` has, of slots from
  // `slot` on.
  const std::byte* GatherHalf(int head, int64_t slot, int num_slots,
                              std::byte* to) const;
  // Fetches the rows at `ahead` meanwhile.
  void WidenHalf(const std::byte* rows, const std::byte* ahead,
                 std::byte* wide) const;
  // From a lane's scores to those of the next one, where they are one row's;
  // 0: they are reduced, or lie anyhow.
  int64_t LaneScoresApart() const;
  // Whether kernels write the tile's scores where they go: each lane has room
  // for 128 there.
  bool ScoresGoInPlace(int64_t slot) const;
  // Says where kernels write those of the tile that begins at `slot`.
  void PlaceScores(int64_t slot, bool in_place);
  // Takes scores that are not written in place to where they go.
  void CopyScores(int head, int64_t slot, int num_slots) const;

  const ScanTask task_;
  const SummaryLayout::Level level_;
  const int width_;  // of a row, in elements
  int row_stride_;   // of what kernels read
  const int64_t lane_scores_apart_;
  // Of a KV head: those that lie together, or a tile where the kernel takes
  // that.
  int pages_at_once_ = 1;
  QueryWords query_ = QueryWords::kFloat32;
  bool by_tile_ = false;  // queries are packed for score_tile_bfloat16
  ScoreKernel score_ = nullptr;
  const ReduceKernel reduce_heads_;
  const int near_bytes_;
  // Both null: rows are read as stored.
  WidenKernel widen_ = nullptr;
  Float8Kernel widen_float8_ = nullptr;  // rows have scales of their own
  bool gathers_ = false;                 // 16 slots are not one run of bytes
  std::byte* wide_ = nullptr;            // [CopiedSlots(), wide row bytes]
  int64_t wide_row_bytes_ = 0;
  int64_t stored_row_bytes_ = 0;
  std::byte* gathered_ = nullptr;  // [CopiedSlots(), stored row bytes]
  UnitRows rows_[kMaxItemHeads];
  float* tile_scores_[kMaxItemHeads] = {};  // each [lanes, kTileKeys]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_ROW_SCAN_H_
