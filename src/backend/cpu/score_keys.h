// KeysOf, IndicesFrom, KeysBetween: scores as whole numbers of the same order,
// and which of them are within bounds, in whatever vectors the file that
// includes this is compiled for. Lanes keep the sets' functions apart.
#ifndef WINNOW_BACKEND_CPU_SCORE_KEYS_H_
#define WINNOW_BACKEND_CPU_SCORE_KEYS_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// A float's order as an integer's: its own inverse.
template <class Lanes>
[[gnu::always_inline]] inline int32_t FlipBits(int32_t bits) {
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

// REQUIRES: no NaN.
template <class Lanes>
ScoreRange KeysOf(const float* scores, int64_t count, int32_t* keys) {
  ScoreRange range;
  for (int64_t i = 0; i < count; ++i) {
    // Adding zero makes the two zeros one.
    const int32_t key =
        FlipBits<Lanes>(__builtin_bit_cast(int32_t, scores[i] + 0.0f));
    keys[i] = key;
    range.low = key < range.low ? key : range.low;
    range.high = key > range.high ? key : range.high;
  }
  return range;
}

// Indices are written always and kept at times, so that no branch is guessed
// wrong.
template <class Lanes>
int64_t IndicesFrom(const int32_t* keys, int64_t count, int32_t least,
                    int32_t* indices) {
  int64_t found = 0;
  int64_t i = 0;
  if constexpr (requires { Lanes::AppendIndices(keys, least, 0, indices); }) {
    for (; i + 16 <= count; i += 16) {
      found += Lanes::AppendIndices(keys + i, least, static_cast<int32_t>(i),
                                    indices + found);
    }
  }
  for (; i < count; ++i) {
    indices[found] = static_cast<int32_t>(i);
    found += keys[i] >= least ? 1 : 0;
  }
  return found;
}

// REQUIRES: kept is keys or overlaps nothing of them.
template <class Lanes>
int64_t KeysBetween(const int32_t* keys, int64_t count, int32_t low,
                    int32_t high, int32_t* kept) {
  int64_t found = 0;
  int64_t i = 0;
  // Behind what is found stand only keys that have been looked at.
  for (; i + 16 <= count; i += 16) {
    found += Lanes::AppendBetween(keys + i, low, high, kept + found);
  }
  for (; i < count; ++i) {
    const int32_t key = keys[i];
    kept[found] = key;
    found += low <= key && key <= high ? 1 : 0;
  }
  return found;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SCORE_KEYS_H_
