// VectorSelect: Select by vector kernels.
#ifndef WINNOW_BACKEND_CPU_VECTOR_SELECT_H_
#define WINNOW_BACKEND_CPU_VECTOR_SELECT_H_

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
// one long row keeps them all busy. Who scans the last piece that a list needs
// chooses: scores are in its caches, and others scan meanwhile. A score is the
// same whoever computes it.
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
    // [query heads, num_scores] from first_score on, by level; of so many
    // consecutive heads one.
    int64_t first_score[2] = {};
    int64_t num_scores[2] = {};
    int reduced_heads = 1;
  };
  // Rows and heads that share a scan of one level: lanes of its kernel.
  struct Scan {
    int request = 0;
    int kv_head = 0;
    int level = 0;
    int first_head = 0;  // of q
    int num_heads = 0;
    int64_t first_row = 0;  // of the wave
    int num_rows = 0;
    int64_t num_slots = 0;
    size_t choice = 0;
    int64_t first_item = 0;
  };
  // Lists [first_list, end_list) of consecutive rows, which the same scans
  // decide on. Where there is nothing to score, that is one of no slot.
  struct Choice {
    int64_t first_row = 0;  // of the wave
    int num_rows = 0;
    int first_list = 0;
    int end_list = 0;
    int num_left = 0;  // items that are not done
  };

  // Takes rows from `first_row` on into the wave; returns how many.
  int64_t PlanRows(const SelectRows& of);
  void PlanScans(const SelectRows& of);
  // The choices of `num_rows` rows of one request, and their scans.
  void AddChoices(const SelectRows& of, int64_t first_row, int num_rows);
  // The scans of both levels of a KV head.
  void AddScans(const SelectRows& of, const Choice& choice, int kv_head);
  void CutScans();
  void Run(const SelectRows& of);
  // Chooses what an item of the scan was the last to be needed for.
  void Finish(const SelectRows& of, const Scan& scan, int worker);
  const Scan& ScanOf(int64_t item) const;
  ScanTask TaskOf(const SelectRows& of, int64_t item) const;

  const ReadKernels kernels_;
  ThreadPool& pool_;
  const int64_t wave_scores_;
  Buffer lanes_;  // scratch of two items of each worker
  Buffer scores_;
  std::vector<Row> rows_;  // of the wave
  std::vector<RawScores> raw_;
  std::vector<Choice> choices_;
  std::vector<Scan> scans_;
  int64_t item_slots_ = 0;
  // A worker takes items [first_items_[i], first_items_[i + 1]) at a time: one,
  // or all of a choice that are together no more than one may be.
  std::vector<int64_t> first_items_;
  std::vector<SelectScratch> scratch_;  // a worker
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_VECTOR_SELECT_H_
