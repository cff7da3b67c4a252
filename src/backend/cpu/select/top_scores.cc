#include "backend/cpu/select/top_scores.h"

#include <algorithm>

#include "backend/cpu/select/score_cut.h"
#include "backend/cpu/select/score_keys.h"
#include "base/check.h"

namespace winnow {
namespace {

// The kernels as plain loops.
struct PlainLanes {};

}  // namespace

TopScores::TopScores(const VectorKernels* kernels)
    : score_cut_(kernels == nullptr ? ScoreCut<PlainLanes>
                                    : kernels->score_cut),
      group_maxima_(kernels == nullptr ? GroupMaxima<PlainLanes>
                                       : kernels->group_maxima),
      scores_from_(kernels == nullptr ? ScoresFrom<PlainLanes>
                                      : kernels->scores_from) {}

std::span<const int32_t> TopScores::Best(std::span<const float> scores,
                                         int64_t count) {
  CHECK(count > 0 && count <= std::ssize(scores), "count={} of {}", count,
        scores.size());
  Grow(scores.size());
  // Whole vectors of them; fewer than two scores a group say little.
  const int64_t num_groups = (2 * count + 15) / 16 * 16;
  const bool by_groups = 2 * num_groups <= std::ssize(scores);
  if (by_groups) {
    group_maxima_(scores.data(), std::ssize(scores), num_groups,
                  maxima_.data());
    const float bar = Cut({maxima_.data(), static_cast<size_t>(num_groups)}, {},
                          count, count + count / 8);
    const int64_t num_kept = scores_from_(scores.data(), std::ssize(scores),
                                          bar, kept_.data(), places_.data());
    scores = {kept_.data(), static_cast<size_t>(num_kept)};
  }
  const float cut = Cut(scores, {}, count, count);
  int32_t* best = best_.data();
  const int64_t num_best =
      scores_from_(scores.data(), std::ssize(scores), cut, kept_.data(), best);
  CHECK(num_best >= count, "best={} count={}: a NaN", num_best, count);
  if (num_best > count) LeaveOutLast(cut, num_best, count);
  for (int64_t i = 0; by_groups && i < count; ++i) {
    best[i] = places_[static_cast<size_t>(best[i])];
  }
  return {best, static_cast<size_t>(count)};
}

void TopScores::LeaveOutLast(float cut, int64_t num_best, int64_t count) {
  // Zeros of either sign are equal.
  const auto num_above = std::ranges::count_if(
      std::span(kept_).first(static_cast<size_t>(num_best)),
      [cut](float score) { return score > cut; });
  int64_t num_left = count - num_above;  // at the cut
  size_t to = 0;
  for (size_t from = 0; to < static_cast<size_t>(count); ++from) {
    best_[to] = best_[from];
    if (kept_[from] > cut) {
      ++to;
    } else if (num_left > 0) {
      --num_left;
      ++to;
    }
  }
}

std::span<const int32_t> TopScores::Above(std::span<const float> scores,
                                          float threshold) {
  Grow(scores.size());
  size_t count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    best_[count] = static_cast<int32_t>(i);
    count += scores[i] > threshold ? 1 : 0;
  }
  return {best_.data(), count};
}

void TopScores::Grow(size_t num_scores) {
  if (num_scores <= best_.size()) return;
  keys_.resize(num_scores);
  maxima_.resize(num_scores);
  kept_.resize(num_scores);
  places_.resize(num_scores);
  best_.resize(num_scores);
}

float TopScores::Cut(std::span<const float> scores,
                     std::span<const int32_t> weights, int64_t least,
                     int64_t most) {
  CHECK(least > 0 && least <= most && !scores.empty() &&
            (weights.empty() || weights.size() == scores.size()),
        "least={} most={} scores={} weights={}", least, most, scores.size(),
        weights.size());
  if (scores.size() > keys_.size()) keys_.resize(scores.size());
  return score_cut_({.scores = scores.data(),
                     .weights = weights.data(),
                     .size = std::ssize(scores),
                     .least = least,
                     .most = most,
                     .keys = keys_.data()});
}

}  // namespace winnow
