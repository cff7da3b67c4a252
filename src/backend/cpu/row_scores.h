// RowScores: how well each partition of a row's past fits its queries.
#ifndef WINNOW_BACKEND_CPU_ROW_SCORES_H_
#define WINNOW_BACKEND_CPU_ROW_SCORES_H_

#include <span>
#include <vector>

#include "backend/backend.h"

namespace winnow {

// Scores of a row's summaries as the inner products and bounds that they are,
// where they have been computed. Null: they have not.
struct RawScores {
  const float* rows = nullptr;        // [q_heads, visible rows]
  const float* normalizer = nullptr;  // [q_heads, the normaliser's]
};

// The q heads [first_head, end_head) of one row, which choose together.
struct ScoreTask {
  const SelectProgram& program;
  const SummaryTable& summaries;
  const LayerCache& cache;
  const View& q;  // [rows, q_heads, k_dim]
  float scale = 0;
  int request = 0;
  int64_t row = 0;
  int64_t context = 0;        // the row's position + 1
  int64_t scored_tokens = 0;  // at most the context: what has scores
  int first_head = 0;
  int end_head = 0;
  RawScores raw = {};
  const uint32_t* fixed = nullptr;  // FixedTable::Tokens, or null
};

// The truth: float32 sums over ascending channels, heads and rows. Owns scratch
// that grows to the longest context; used by one worker at a time.
class RowScores {
 public:
  // Scores of the partitions [0, ceil(scored_tokens / block_tokens)), -infinity
  // where a partition has no visible row, is fixed, or its score is NaN. Valid
  // until the next call.
  std::span<const float> Score(const ScoreTask& task);

 private:
  // Each head's scores, before and after they are mapped.
  std::span<const float> ScoreHead(const ScoreTask& task, int head);
  // Without those of fixed partitions.
  std::span<const float> LeaveOutFixed(const ScoreTask& task,
                                       std::span<const float> scores);
  std::span<const float> MapHead(const ScoreTask& task, int head,
                                 std::span<const float> scores);
  std::span<const float> ScoreNormalizer(const ScoreTask& task, int head);
  void TakeInHead(const ScoreTask& task, int head,
                  std::span<const float> scores);
  void Pool(const ScoreTask& task);

  std::vector<float> of_head_;     // [visible rows]
  std::vector<float> rows_;        // [visible rows], reduced over heads
  std::vector<float> partitions_;  // [partitions]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROW_SCORES_H_
