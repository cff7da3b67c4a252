#include "backend/cpu/top_scores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace winnow {
namespace {

// A float's order as an integer's: its own inverse.
int32_t Flip(int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }
// Adding zero makes the two zeros one.
int32_t KeyOf(float score) {
  return Flip(std::bit_cast<int32_t>(score + 0.0f));
}
float ScoreOf(int32_t key) { return std::bit_cast<float>(Flip(key)); }

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

std::span<const int32_t> TopScores::Best(std::span<const float> scores,
                                         int64_t count) {
  CHECK(count > 0 && count <= std::ssize(scores), "count={} of {}", count,
        scores.size());
  keys_.resize(scores.size());
  best_.resize(scores.size());
  const int64_t num_found = FindCut(scores, count);
  // Written always and kept at times, so that no branch is guessed wrong.
  int32_t* best = best_.data();
  int64_t num_best = 0;
  const auto size = static_cast<int32_t>(scores.size());
  for (int32_t i = 0; i < size; ++i) {
    best[num_best] = i;
    num_best += keys_[static_cast<size_t>(i)] >= cut_ ? 1 : 0;
    if (num_best == num_found) break;
  }
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
  best_.resize(scores.size());
  size_t count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    best_[count] = static_cast<int32_t>(i);
    count += scores[i] > threshold ? 1 : 0;
  }
  return {best_.data(), count};
}

int64_t TopScores::FindCut(std::span<const float> scores, int64_t count) {
  int32_t low = std::numeric_limits<int32_t>::max();
  int32_t high = std::numeric_limits<int32_t>::min();
  for (size_t i = 0; i < scores.size(); ++i) {
    keys_[i] = KeyOf(scores[i]);
    low = std::min(low, keys_[i]);
    high = std::max(high, keys_[i]);
  }
  // `num_found` keys, at least `count`, are low or more; fewer than `count` are
  // more than high.
  int64_t num_found = std::ssize(scores);
  for (int pass = 0; low < high && num_found > count; ++pass) {
    const int32_t middle = Between(low, high, pass);
    const int64_t from_middle = CountFrom(middle);
    if (from_middle >= count) {
      low = middle;
      num_found = from_middle;
    } else {
      high = middle - 1;
    }
  }
  cut_ = low;
  return num_found;
}

int64_t TopScores::CountFrom(int32_t least) const {
  if (count_from_ != nullptr) {
    return count_from_(keys_.data(), std::ssize(keys_), least);
  }
  return std::ranges::count_if(keys_,
                               [&](int32_t key) { return key >= least; });
}

}  // namespace winnow
