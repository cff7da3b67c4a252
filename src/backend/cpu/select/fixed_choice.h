// FixedChoices: what requests read for good, chosen when their context ends.
#ifndef WINNOW_BACKEND_CPU_SELECT_FIXED_CHOICE_H_
#define WINNOW_BACKEND_CPU_SELECT_FIXED_CHOICE_H_

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/select/top_scores.h"
#include "backend/cpu/step_rows.h"
#include "base/thread_pool.h"

namespace winnow {

// The token behind which a request's choice is fixed; 0 where its program
// fixes none.
int64_t FixedEnd(const StepRows& rows, const SelectProgram& program,
                 int request);

// The second half of Summarize. Owns the list of a call's choices and each
// worker's scratch, which grow to the most and to the longest context; borrows
// the pool. Called by the backend's thread.
class FixedChoices {
 public:
  // The truth, or by a set's kernels where `kernels` is not null. REQUIRES:
  // kernels and pool outlive this.
  FixedChoices(const VectorKernels* kernels, ThreadPool& pool);

  // Keeps the queries that are observed, and chooses for every request whose
  // end is reached. REQUIRES: its summaries are closed.
  void Fix(const LayerStep& step, const SummarizeArgs& args,
           const LayerCache& cache);

 private:
  struct Scratch {
    std::vector<float> raw;     // [lanes, tokens]: q k of a few queries
    std::vector<float> sums;    // [tokens]: of their attention
    std::vector<float> scores;  // [partitions]
    std::vector<std::byte> lanes;
    TopScores top;
  };
  // One list of one request.
  struct Choice {
    const StepRows& rows;
    const SummarizeArgs& args;
    const LayerSelector& selector;
    const LayerCache& cache;
    int request = 0;
    int list = 0;  // of the layer
    int64_t end = 0;
    int64_t first_free = 0;  // partitions
    int64_t end_free = 0;

    const SelectProgram& program() const { return *selector.program; }
    int kv_head() const { return list / selector.fixed.layout.num_lists; }
  };

  void KeepQueries(const StepRows& rows, const SummarizeArgs& args, int request,
                   int64_t end) const;
  void Choose(const Choice& choice, Scratch& scratch) const;
  // Leave in scratch.scores what the partitions before end_free score.
  void Observe(const Choice& choice, Scratch& scratch) const;
  void ScoreOutliers(const Choice& choice, Scratch& scratch) const;
  // q k of queries [first, first + count) of the list's, head by head: at
  // scratch.raw, `choice.end` apart.
  void ScoreQueries(const Choice& choice, int64_t first, int64_t count,
                    Scratch& scratch) const;

  const VectorKernels* kernels_;
  ThreadPool& pool_;
  std::vector<Choice> choices_;   // of a call
  std::vector<Scratch> scratch_;  // a worker
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_FIXED_CHOICE_H_
