// TopScores: which scores are among the greatest.
#ifndef WINNOW_BACKEND_CPU_TOP_SCORES_H_
#define WINNOW_BACKEND_CPU_TOP_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// Owns scratch that grows to the most scores; used by one worker at a time.
//
// The cut is found by halving the range of the scores and counting, a dozen
// passes that are vectors throughout: at 1,024 scores nth_element over indices
// took ten times as long.
class TopScores {
 public:
  // Calls take(i), ascending, for the `count` greatest scores, ties to the
  // lowest index. REQUIRES: no NaN, 0 < count <= scores.size().
  template <typename Take>
  void ForEach(std::span<const float> scores, int64_t count, Take&& take) {
    int64_t ties = FindCut(scores, count);
    const auto size = static_cast<int64_t>(scores.size());
    const int32_t* keys = keys_.data();
    for (int64_t i = 0; i < size; ++i) {
      if (keys[i] < cut_) continue;
      if (keys[i] == cut_ && ties-- <= 0) continue;
      take(i);
    }
  }

 private:
  // Leaves in keys_ numbers in the order of the scores, in cut_ the lowest that
  // is taken; returns how many of its equals are.
  int64_t FindCut(std::span<const float> scores, int64_t count);

  std::vector<int32_t> keys_;
  int32_t cut_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_TOP_SCORES_H_
