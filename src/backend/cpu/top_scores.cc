#include "backend/cpu/top_scores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "backend/cpu/count_from.h"
#include "backend/cpu/score_keys.h"
#include "base/check.h"

namespace winnow {
namespace {

// The kernels as plain loops.
struct PlainLanes {};

int32_t KeyOf(float score) {
  return FlipBits<PlainLanes>(std::bit_cast<int32_t>(score + 0.0f));
}
float ScoreOf(int32_t key) {
  return std::bit_cast<float>(FlipBits<PlainLanes>(key));
}

// A key in (low, high]: between their scores while that halves the range well,
// between the keys themselves from then on, so that it ends.
int32_t Between(int32_t low, int32_t high, int pass) {
  constexpr int kPassesByScore = 16;
  if (pass < kPassesByScore) {
    const float middle = ScoreOf(low) * 0.5f + ScoreOf(high) * 0.5f;
    if (std::isfinite(middle)) return std::clamp(KeyOf(middle), low + 1, high);
  }
  return static_cast<int32_t>(low + (int64_t{high} - low + 1) / 2);
}

}  // namespace

TopScores::TopScores(const ReadKernels* kernels)
    : keys_of_(kernels == nullptr ? KeysOf<PlainLanes> : kernels->keys_of),
      count_from_(kernels == nullptr ? CountFrom<PlainLanes>
                                     : kernels->count_from),
      indices_from_(kernels == nullptr ? IndicesFrom<PlainLanes>
                                       : kernels->indices_from),
      keys_between_(kernels == nullptr ? nullptr : kernels->keys_between) {}

std::span<const int32_t> TopScores::Best(std::span<const float> scores,
                                         int64_t count) {
  CHECK(count > 0 && count <= std::ssize(scores), "count={} of {}", count,
        scores.size());
  keys_.resize(std::max(keys_.size(), scores.size()));
  best_.resize(std::max(best_.size(), scores.size()));
  between_.resize(std::max(between_.size(), scores.size()));
  const int64_t num_found = FindCut(scores, count);
  int32_t* best = best_.data();
  int64_t num_best =
      indices_from_(keys_.data(), std::ssize(scores), cut_, best);
  // Of those at the cut the last are too many.
  for (int64_t surplus = num_found - count, i = num_best; surplus > 0;) {
    --i;
    if (keys_[static_cast<size_t>(best[i])] != cut_) continue;
    std::copy(best + i + 1, best + num_best, best + i);
    --num_best;
    --surplus;
  }
  return {best, static_cast<size_t>(count)};
}

std::span<const int32_t> TopScores::Above(std::span<const float> scores,
                                          float threshold) {
  best_.resize(std::max(best_.size(), scores.size()));
  size_t count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    best_[count] = static_cast<int32_t>(i);
    count += scores[i] > threshold ? 1 : 0;
  }
  return {best_.data(), count};
}

int64_t TopScores::FindCut(std::span<const float> scores, int64_t count) {
  const int32_t* keys = keys_.data();
  int64_t size = std::ssize(scores);
  auto [low, high] = keys_of_(scores.data(), size, keys_.data());
  // `num_found` keys, at least `count`, are low or more; `num_above`, fewer
  // than `count`, are more than high, of which `num_left_out` are not among
  // keys[0, size).
  int64_t num_found = size, num_above = 0, num_left_out = 0;
  for (int pass = 0; low < high && num_found > count; ++pass) {
    const int32_t middle = Between(low, high, pass);
    const int64_t from_middle = num_left_out + count_from_(keys, size, middle);
    if (from_middle >= count) {
      low = middle;
      num_found = from_middle;
    } else {
      high = middle - 1;
      num_above = from_middle;
    }
    if (keys_between_ == nullptr || 4 * (num_found - num_above) > size) {
      continue;
    }
    size = keys_between_(keys, size, low, high, between_.data());
    keys = between_.data();
    num_left_out = num_above;
  }
  cut_ = low;
  return num_found;
}

}  // namespace winnow
