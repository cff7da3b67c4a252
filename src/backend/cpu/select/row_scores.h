// RowScores: how well each partition of a row's past fits its queries.
#ifndef WINNOW_BACKEND_CPU_SELECT_ROW_SCORES_H_
#define WINNOW_BACKEND_CPU_SELECT_ROW_SCORES_H_

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Scores of a row's summaries as the inner products and bounds that they are,
// where they have been computed. Null: they have not. Each head's are of one
// list; Score overwrites those that it leaves out.
struct RawScores {
  // [query heads / reduced_heads, visible rows]: of so many consecutive heads,
  // a list's, one as ReduceKernel has it; 0: each head's as they are.
  float* rows = nullptr;
  int reduced_heads = 0;
  const float* normalizer = nullptr;  // [query heads, the normaliser's]
  int first_head = 0;                 // the query head whose scores come first
};

// True where a partition's score is that of its one row, and nothing is done to
// that but to reduce it over heads.
bool ReducesHeadsAlone(const SelectProgram& program);

// What reduces the scores of `num_heads` heads.
HeadRows HeadRowsOf(Reduction group, int num_heads);

// The query heads [first_head, end_head) of one row, which choose together.
struct ScoreTask {
  const SelectProgram& program;
  const SummaryTable& summaries;
  const LayerCache& cache;
  const View& q;  // [rows, query heads, k_dim]: a gate has one a KV head
  float scale = 0;
  int request = 0;
  int64_t row = 0;
  int64_t context = 0;        // the row's position + 1
  int64_t scored_tokens = 0;  // at most the context: what has scores
  int first_head = 0;
  int end_head = 0;
  RawScores raw = {};
  FixedTokens fixed = {};  // false: nothing is fixed
};

// The truth: float32 sums over ascending channels, heads and rows; but for the
// exponentials of a head's rows, where a set's kernel is given, which are
// within 2e-7. Owns scratch that grows to the longest context; used by one
// worker at a time.
class RowScores {
 public:
  // Without kernels it computes each score itself.
  RowScores() = default;
  explicit RowScores(const VectorKernels& kernels)
      : reduce_heads_(kernels.reduce_heads),
        softmax_scores_(kernels.softmax_scores) {}

  // Scores of the partitions [0, end), at most ceil(scored_tokens /
  // block_tokens), -infinity where a partition has no visible row, is fixed, is
  // a cluster without tokens, or its score is NaN. Valid until the next call.
  std::span<const float> Score(const ScoreTask& task, int64_t end);

 private:
  // Each head's scores, before and after they are mapped.
  std::span<float> ScoreHead(const ScoreTask& task, int head);
  // Maps a head's scores and takes them in, by the kernel; false: it is left to
  // others.
  bool TakeInWeights(const ScoreTask& task, int head,
                     std::span<const float> scores);
  std::span<const float> MapHead(const ScoreTask& task, int head,
                                 std::span<const float> scores);
  std::span<const float> ScoreNormalizer(const ScoreTask& task, int head);
  void TakeInHead(const ScoreTask& task, int head,
                  std::span<const float> scores);
  void Pool(const ScoreTask& task);
  // All of it at once, where a partition is a row and heads are not mapped:
  // false otherwise.
  bool ReduceRawRows(const ScoreTask& task);
  // Set empty_ and fixed_.
  void FindEmpty(const ScoreTask& task);
  void FindFixed(const ScoreTask& task);

  ReduceKernel reduce_heads_ = nullptr;
  SoftmaxKernel softmax_scores_ = nullptr;
  std::vector<int32_t> empty_;     // clusters without tokens
  std::vector<int32_t> fixed_;     // rows whose first token is fixed
  std::vector<float> of_head_;     // [visible rows]
  std::vector<float> rows_;        // [visible rows], reduced over heads
  std::vector<float> partitions_;  // [partitions]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_ROW_SCORES_H_
