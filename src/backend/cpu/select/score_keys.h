// KeysOf, GroupMaxima, ScoresFrom: scores as whole numbers of the same order,
// and which of them are great, in whatever vectors the file that includes this
// is compiled for. Lanes keep the sets' functions apart.
#ifndef WINNOW_BACKEND_CPU_SELECT_SCORE_KEYS_H_
#define WINNOW_BACKEND_CPU_SELECT_SCORE_KEYS_H_

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// A float's order as an integer's: its own inverse.
template <class Lanes>
[[gnu::always_inline]] inline int32_t FlipBits(int32_t bits) {
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

// The least and greatest of numbers; low > high where there are none.
struct ScoreRange {
  int32_t low = 0x7fffffff;
  int32_t high = -0x7fffffff - 1;
};

// Writes numbers in the order of the scores to keys[0, count), -0 before 0.
// REQUIRES: no NaN.
template <class Lanes>
ScoreRange KeysOf(const float* scores, int64_t count, int32_t* keys) {
  ScoreRange range;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t key = FlipBits<Lanes>(__builtin_bit_cast(int32_t, scores[i]));
    keys[i] = key;
    range.low = key < range.low ? key : range.low;
    range.high = key > range.high ? key : range.high;
  }
  return range;
}

template <class Lanes>
void GroupMaxima(const float* __restrict scores, int64_t count,
                 int64_t num_groups, float* __restrict maxima) {
  for (int64_t group = 0; group < num_groups; ++group) {
    maxima[group] = scores[group];
  }
  for (int64_t first = num_groups; first < count; first += num_groups) {
    const float* __restrict from = scores + first;
    const int64_t end = count - first < num_groups ? count - first : num_groups;
    for (int64_t group = 0; group < end; ++group) {
      maxima[group] = from[group] > maxima[group] ? from[group] : maxima[group];
    }
  }
}

// Written always and kept at times, so that no branch is guessed wrong; behind
// what is kept stand only scores that have been looked at.
template <class Lanes>
int64_t ScoresFrom(const float* scores, int64_t count, float least, float* kept,
                   int32_t* indices) {
  int64_t found = 0;
  int64_t i = 0;
  if constexpr (requires {
                  Lanes::AppendFrom(scores, least, 0, kept, indices);
                }) {
    for (; i + 16 <= count; i += 16) {
      found += Lanes::AppendFrom(scores + i, least, static_cast<int32_t>(i),
                                 kept + found, indices + found);
    }
  }
  for (; i < count; ++i) {
    kept[found] = scores[i];
    indices[found] = static_cast<int32_t>(i);
    found += scores[i] >= least ? 1 : 0;
  }
  return found;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SCORE_KEYS_H_
