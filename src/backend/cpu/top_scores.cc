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

int64_t CountFrom(std::span<const int32_t> keys, int32_t least) {
  int32_t count = 0;
  for (const int32_t key : keys) count += key >= least ? 1 : 0;
  return count;
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

int64_t TopScores::FindCut(std::span<const float> scores, int64_t count) {
  CHECK(count > 0 && count <= std::ssize(scores), "count={} of {}", count,
        scores.size());
  keys_.resize(scores.size());
  int32_t low = std::numeric_limits<int32_t>::max();
  int32_t high = std::numeric_limits<int32_t>::min();
  for (size_t i = 0; i < scores.size(); ++i) {
    keys_[i] = KeyOf(scores[i]);
    low = std::min(low, keys_[i]);
    high = std::max(high, keys_[i]);
  }
  // At least `count` keys are low or more, fewer are more than high.
  int64_t from_low = std::ssize(scores);
  for (int pass = 0; low < high && from_low > count; ++pass) {
    const int32_t middle = Between(low, high, pass);
    const int64_t from_middle = CountFrom(keys_, middle);
    if (from_middle >= count) {
      low = middle;
      from_low = from_middle;
    } else {
      high = middle - 1;
    }
  }
  cut_ = low;
  if (from_low == count) return count;
  return count - CountFrom(keys_, low + 1);
}

}  // namespace winnow
