// TopScores: which scores are among the greatest.
#ifndef WINNOW_BACKEND_CPU_TOP_SCORES_H_
#define WINNOW_BACKEND_CPU_TOP_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/read_kernels.h"

namespace winnow {

// Owns scratch that grows to the most scores; used by one worker at a time.
//
// The cut is found by halving the range of the scores and counting: a dozen
// passes that are vectors throughout, and no sort. Keys that no longer matter
// are left out on the way, where a set does so by vectors.
class TopScores {
 public:
  // By a set's kernels; null: plain loops.
  explicit TopScores(const ReadKernels* kernels = nullptr);

  // Indices, ascending, of the `count` greatest scores, ties to the lowest
  // index. Valid until the next call. REQUIRES: no NaN, 0 < count <=
  // scores.size().
  std::span<const int32_t> Best(std::span<const float> scores, int64_t count);
  // Indices, ascending, of the scores above `threshold`. Valid likewise.
  std::span<const int32_t> Above(std::span<const float> scores,
                                 float threshold);

 private:
  // Leaves in keys_ numbers in the order of the scores, in cut_ the lowest that
  // is taken; returns how many keys are cut_ or more.
  int64_t FindCut(std::span<const float> scores, int64_t count);

  KeysKernel keys_of_;
  CountKernel count_from_;
  IndicesKernel indices_from_;
  KeysBetweenKernel keys_between_;  // or null
  std::vector<int32_t> keys_;
  std::vector<int32_t> between_;
  std::vector<int32_t> best_;
  int32_t cut_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_TOP_SCORES_H_
