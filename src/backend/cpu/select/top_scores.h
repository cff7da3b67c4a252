// TopScores: which scores are among the greatest.
#ifndef WINNOW_BACKEND_CPU_SELECT_TOP_SCORES_H_
#define WINNOW_BACKEND_CPU_SELECT_TOP_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Owns scratch that grows to the most scores; used by one worker at a time.
//
// Where few are wanted, the scores are dealt into twice as many groups: `count`
// groups have a score that reaches the `count`-th of the groups' greatest, so
// what does not is none of the best. Of the rest the cut is found by halving
// the range of the scores and counting: a dozen passes that are vectors
// throughout, and no sort.
class TopScores {
 public:
  // By a set's kernels; null: plain loops.
  explicit TopScores(const VectorKernels* kernels = nullptr);

  // Indices, ascending, of the `count` greatest scores, ties to the lowest
  // index. Valid until more are chosen. REQUIRES: no NaN, 0 < count <=
  // scores.size().
  std::span<const int32_t> Best(std::span<const float> scores, int64_t count);
  // Indices, ascending, of the scores above `threshold`. Valid likewise.
  std::span<const int32_t> Above(std::span<const float> scores,
                                 float threshold);
  // As CutKernel has it; no weights: 1 each. What was chosen before stays
  // valid. REQUIRES: as there.
  float Cut(std::span<const float> scores, std::span<const int32_t> weights,
            int64_t least, int64_t most);

 private:
  // Makes room for what is chosen among so many scores.
  void Grow(size_t num_scores);
  // Of best_[0, num_best), whose scores reach the cut, leaves `count`: those
  // above it, and the first ones at it.
  void LeaveOutLast(float cut, int64_t num_best, int64_t count);

  CutKernel score_cut_;
  MaximaKernel group_maxima_;
  ScoresFromKernel scores_from_;
  std::vector<int32_t> keys_;
  std::vector<float> maxima_;
  std::vector<float> kept_;
  std::vector<int32_t> places_;  // of those that are kept
  std::vector<int32_t> best_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_TOP_SCORES_H_
