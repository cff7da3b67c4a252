// VectorSelect: Select by vector kernels.
#ifndef WINNOW_BACKEND_CPU_ISA_VECTOR_SELECT_H_
#define WINNOW_BACKEND_CPU_ISA_VECTOR_SELECT_H_

#include <algorithm>
#include <vector>

#include "backend/cpu/isa/cpu_kernels.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/select/row_scan.h"
#include "backend/cpu/select/select.h"
#include "backend/cpu/select/select_units.h"

namespace winnow {

// Owns the scores under way and each worker's scratch; borrows the pool. Called
// by the backend's thread.
//
// Works in waves of rows whose scores fit. What lists are made of are the
// scores of KV heads of a row: where such units keep all workers busy to the
// end, a worker scans a unit's summaries and makes its lists at once, of scores
// that its cache still has unless a KV head has very many. Else, as with one
// long row and many workers, all of them scan the wave's summaries cut into
// pieces that know nothing of one another, and then choose. A score is the same
// whoever computes it. (Three runs in turn with the commit before units and
// before what TopScores leaves out, two CPUs of a Zen 4:
// record 2026-11-27-6e68e9c-verbs-in-turn.json.)
//
// While lists are made no summaries are read. What would hide the one behind
// the other was tried in one program by turns, by two CPUs of a Zen 4, without
// a record. The next unit's rows fetched, some with each pass over scores:
// alike. Its tiles scanned, one wherever lists pause: Select of `infllm-v2` and
// `shadowkv` in 0.98 of the time, of `retroinfer` in 1.01; so scanned by units
// of one KV head, that there be a next one, that of `moba` in 1.3 and of `mean`
// in 1.1.
class VectorSelect {
 public:
  struct Limits {
    // A wave has so many scores at most, unless one row has more.
    int64_t wave_scores = int64_t{2} << 20;
    // Units are made where rows have so many slots to scan, on average. A
    // worker takes the next unit a tile before it ends one: units of no more
    // than a few tiles would be few workers'.
    int64_t unit_slots = 4 * kTileKeys;
  };

  // REQUIRES: this CPU runs `kernels`, which is not kScalar.
  VectorSelect(CpuKernels kernels, ThreadPool& pool)
      : VectorSelect(kernels, pool, Limits()) {}
  VectorSelect(CpuKernels kernels, ThreadPool& pool, const Limits& limits);

  // The op. A k_dim that is no multiple of 16, or above half of
  // kMaxAttendDim, goes to SelectScalar.
  void Select(const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache, const View& gate_queries);

 private:
  // One row of the wave.
  struct Row {
    const SelectProgram* program = nullptr;  // null: no score is needed
    bool has_lists = false;                  // some of its pages are chosen
    int group_heads = 1;                     // query heads a KV head
    int reduced_heads = 0;                   // as RawScores has it
    // By level: of a query head or, where these are reduced, of a list.
    int64_t num_scores[2] = {};
    // Where scores are needed: those that a KV head has in the rows of the
    // wave before this one, and in this one's levels before.
    int64_t first_score[2] = {};

    // Query heads [0, heads) have so many scores of a level.
    int64_t ScoresOf(int64_t heads, int level) const {
      return heads / std::max(reduced_heads, 1) * num_scores[level];
    }
  };
  // Consecutive rows that share scans; or need no score.
  struct Group {
    int64_t first_row = 0;  // of the wave
    int64_t num_rows = 0;
    int64_t num_slots = 0;  // that are scanned for a KV head, in a scan each
    bool has_lists = false;
  };
  // KV heads of consecutive rows, and their scans.
  struct Unit {
    int64_t first_row = 0;  // of the wave
    int64_t num_rows = 0;
    int first_kv_head = 0;
    int num_kv_heads = 0;
    size_t first_scan = 0, end_scan = 0;
  };
  // Rows and heads that share a scan of one level: lanes of its kernel.
  struct Scan {
    int request = 0;
    int first_kv_head = 0;
    int num_kv_heads = 0;  // at most kMaxItemHeads
    int level = 0;
    int first_head = 0;  // of those of a KV head
    int num_heads = 0;
    int64_t first_row = 0;  // of the wave
    int num_rows = 0;
    int64_t num_slots = 0;
  };
  // What a worker takes at a time, where units are cut: slots of a scan.
  struct Piece {
    size_t scan = 0;
    int64_t first_slot = 0, end_slot = 0;
  };
  // A worker's way through the units, or the pieces.
  class Walk;

  // Takes rows from `first_row` on into the wave; returns how many.
  int64_t PlanRows(const SelectRows& of);
  void PlanGroups(const SelectRows& of);
  // Behind the rows that share scans with row `first` of the wave, or read
  // everything as it does.
  int64_t EndOfGroup(const SelectRows& of, int64_t first) const;
  // Of KvHeadsOfUnit; 0: the wave is scanned in pieces.
  int UnitHeads(const SelectRows& of) const;
  // Units of so many KV heads; 0: the wave is one, in pieces.
  void PlanUnits(const SelectRows& of, int unit_heads);
  // The scans of a group for KV heads of a unit.
  void AddScans(const SelectRows& of, const Group& group, const Unit& unit);
  void CutScans();
  ScanTask TaskOf(const SelectRows& of, const Unit& unit, const Scan& scan,
                  float* scores) const;
  // Where a row's scores of a level begin among a unit's.
  int64_t FirstScore(const Unit& unit, const Row& row, int level) const;
  RawScores RawOf(const Unit& unit, int64_t row, float* scores) const;
  void ScanPieces(const SelectRows& of);
  // Scans units, each whole, and makes their lists.
  void MakeUnits(const SelectRows& of);
  void MakeLists(const SelectRows& of, const Unit& unit, float* scores,
                 SelectScratch& scratch) const;

  const VectorKernels kernels_;
  ThreadPool& pool_;
  const Limits limits_;
  Buffer lanes_;   // scratch of two scans of each worker
  Buffer scores_;  // the wave's, or a unit's for each worker
  // Of the wave.
  bool has_layer_lists_ = false;  // some are made of all KV heads' scores
  int64_t unit_scores_ = 0;       // the most that a unit has
  std::vector<Row> rows_;
  std::vector<Group> groups_;
  std::vector<KvHeadWork> works_;  // [groups]
  std::vector<Unit> units_;
  std::vector<Scan> scans_;
  std::vector<Piece> pieces_;
  std::vector<RawScores> raw_;
  std::vector<SelectScratch> scratch_;  // a worker
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_VECTOR_SELECT_H_
