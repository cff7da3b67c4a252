// VectorSelect: Select by vector kernels.
#ifndef WINNOW_BACKEND_CPU_VECTOR_SELECT_H_
#define WINNOW_BACKEND_CPU_VECTOR_SELECT_H_

#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/read_kernels.h"
#include "backend/cpu/row_scan.h"
#include "backend/cpu/select.h"

namespace winnow {

// Owns the scores under way and each worker's scratch; borrows the pool. Called
// by the backend's thread.
//
// Works in waves of rows whose scores fit: all workers scan the summaries of
// the wave's rows, cut into pieces that know nothing of one another, so that
// one long row keeps them all busy; then they choose. A score is the same
// whoever computes it.
class VectorSelect {
 public:
  // A wave has so many scores at most, unless one row has more.
  static constexpr int64_t kWaveScores = int64_t{2} << 20;

  // REQUIRES: this CPU runs `kernels`, which is not kScalar.
  VectorSelect(CpuKernels kernels, ThreadPool& pool,
               int64_t wave_scores = kWaveScores);

  // The verb. A k_dim that is no multiple of 16, or above half of
  // kMaxReadDim, goes to SelectScalar.
  void Select(const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache, const View& gate_queries);

 private:
  // One row of the wave: where its scores stand.
  struct Row {
    const SelectProgram* program = nullptr;  // null: no score is needed
    // [query heads / heads_a_score(), num_scores] from first_score on, by
    // level; RawScores has reduced_heads.
    int64_t first_score[2] = {};
    int64_t num_scores[2] = {};
    int reduced_heads = 0;

    int heads_a_score() const { return std::max(reduced_heads, 1); }
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
  // What a worker takes at a time: slots of a scan.
  struct Item {
    const Scan* scan = nullptr;
    int64_t first_slot = 0, end_slot = 0;
  };
  // A worker's way through the items.
  class Walk;

  // Takes rows from `first_row` on into the wave; returns how many.
  int64_t PlanRows(const SelectRows& of);
  void PlanScans(const SelectRows& of);
  // The scans of `num_rows` rows of one request.
  void AddScans(const SelectRows& of, int64_t first_row, int num_rows);
  void CutScans();
  ScanTask TaskOf(const SelectRows& of, const Scan& scan) const;
  void ScanRows(const SelectRows& of);

  const ReadKernels kernels_;
  ThreadPool& pool_;
  const int64_t wave_scores_;
  Buffer lanes_;  // scratch of two scans of each worker
  Buffer scores_;
  std::vector<Row> rows_;  // of the wave
  std::vector<RawScores> raw_;
  std::vector<Scan> scans_;
  std::vector<Item> items_;
  std::vector<SelectScratch> scratch_;  // a worker
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_VECTOR_SELECT_H_
