// RowScan: the scores of consecutive summary rows, streamed once for several
// queries.
#ifndef WINNOW_BACKEND_CPU_ROW_SCAN_H_
#define WINNOW_BACKEND_CPU_ROW_SCAN_H_

#include <functional>

#include "backend/backend.h"
#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_workspace.h"
#include "backend/cpu/row_scores.h"

namespace winnow {

// One row's q head, and where its scores go.
struct ScanLane {
  int64_t row = 0;
  int64_t q_head = 0;
  float* scores = nullptr;  // [num_scores]: of summary rows 0, 1, ...
  int64_t num_scores = 0;
};

// What is scored: slots [first_slot, end_slot) of one level of a request and
// KV head; a key is the slot of its token.
struct ScanTask {
  const SummaryRows& rows;
  const SummaryTable& table;
  const LayerCache& cache;
  const View& q;  // [rows, q_heads, k_dim]
  int level = 0;
  int request = 0;
  int kv_head = 0;
  int64_t first_slot = 0;  // a multiple of 128
  int64_t end_slot = 0;
  int num_lanes = 0;
  // Scores of so many consecutive lanes become one, in the first one's place.
  int reduced_lanes = 1;
  Reduction group = Reduction::kMax;  // how
  ScanLane lanes[kUnitRows] = {};
};

// A bound is an inner product too: sum_c max(q_c min_c, q_c max_c) is that of
// the negative parts of q with the least and of the positive ones with the
// greatest. So one kernel serves every kind, and it is attention's own: 32
// rows are transposed, once for all lanes, and each score is a sum over
// ascending words, which depends on nothing but its row and query.
class RowScan {
 public:
  // Takes what it needs from `scratch`. REQUIRES: k_dim is a multiple of 16, at
  // most kMaxReadDim / 2.
  RowScan(const ReadKernels& kernels, ScanTask task, ScratchCutter scratch);

  void Run() {
    Run([]() -> RowScan* { return nullptr; });
  }
  // Where rows are read as they lie, calls `next` before the last are scored:
  // what it returns, if any, has its first rows fetched meanwhile.
  void Run(const std::function<RowScan*()>& next);

 private:
  // Each lane's words behind the last one's or, by tile, side by side.
  void PackQueries(float* words) const;
  // One lane's: [width] of float32 or, where they are paired, of bfloat16.
  void PackQuery(const ScanLane& lane, std::byte* words) const;
  // The 32 rows from slot `slot` on, as the kernel reads them, as number
  // `number` of a tile.
  const std::byte* Page(int64_t slot, int number) const;
  // The same rows as they are stored; of which only the first is there, where
  // they are gathered.
  const std::byte* StoredPage(int64_t slot) const;
  const std::byte* GatherPage(int64_t slot, std::byte* to) const;
  // Fetches the rows at `ahead` meanwhile: rows that are not read as they lie
  // are no part of what kernels fetch.
  void WidenPage(const std::byte* rows, const std::byte* ahead,
                 std::byte* wide) const;
  void FindTile(int64_t slot, TileKeys& keys);
  // Rows are read where they lie.
  bool ReadsInPlace() const { return wide_ == nullptr && !gathers_; }
  void CopyScores(int64_t slot, int num_slots) const;

  const ScanTask task_;
  const SummaryLayout::Level level_;
  const int width_;  // of a row, in elements
  bool paired_ = false;
  bool by_tile_ = false;  // queries are packed for score_tile_bfloat16
  ScoreKernel score_ = nullptr;
  const ReduceKernel reduce_heads_;
  const int far_bytes_, near_bytes_;
  // Both null: rows are read as stored.
  WidenKernel widen_ = nullptr;
  Float8Kernel widen_float8_ = nullptr;  // rows have scales of their own
  bool gathers_ = false;                 // 32 slots are not one run of bytes
  std::byte* wide_ = nullptr;            // [128, wide row bytes]
  int64_t wide_row_bytes_ = 0;
  int64_t stored_row_bytes_ = 0;
  std::byte* gathered_ = nullptr;  // [128, row bytes]
  UnitRows rows_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROW_SCAN_H_
