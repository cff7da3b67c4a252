// ScoreCut: where the best scores end, in whatever vectors the file that
// includes this is compiled for. Lanes keep the sets' functions apart.
#ifndef WINNOW_BACKEND_CPU_SELECT_SCORE_CUT_H_
#define WINNOW_BACKEND_CPU_SELECT_SCORE_CUT_H_

#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/select/score_keys.h"

namespace winnow {

template <class Lanes>
float KeyScore(int32_t key) {
  return __builtin_bit_cast(float, FlipBits<Lanes>(key));
}

// A key in (low, high]: between their scores while that halves the range well,
// between the keys themselves from then on, so that it ends.
template <class Lanes>
int32_t KeyBetween(int32_t low, int32_t high, int pass) {
  constexpr int kPassesByScore = 16;
  if (pass < kPassesByScore) {
    const float middle =
        KeyScore<Lanes>(low) * 0.5f + KeyScore<Lanes>(high) * 0.5f;
    if (__builtin_isfinite(middle)) {
      const int32_t key = FlipBits<Lanes>(__builtin_bit_cast(int32_t, middle));
      return key <= low ? low + 1 : key > high ? high : key;
    }
  }
  return static_cast<int32_t>(low + (int64_t{high} - low + 1) / 2);
}

// How much keys of `least` or more weigh.
template <class Lanes>
int32_t WeightFrom(const int32_t* keys, const int32_t* weights, int64_t size,
                   int32_t least) {
  int32_t sum = 0;
  if (weights == nullptr) {
    for (int64_t i = 0; i < size; ++i) sum += keys[i] >= least ? 1 : 0;
  } else {
    // Attend whether they count or not: a loop of vectors in every set.
    for (int64_t i = 0; i < size; ++i) {
      sum += weights[i] & -static_cast<int32_t>(keys[i] >= least);
    }
  }
  return sum;
}

// By passes over all that is left to cut, and no sort: how scores are ordered
// no branch would foresee. (Clusters sorted, Select of `clusterkv` took 0.11 ms
// by sixteen CPUs with AMX, searched for in plain loops 0.08:
// record 2026-11-28-9c41287-verbs-in-turn-amx.json.)
template <class Lanes>
float ScoreCut(const CutTask& of) {
  auto [low, high] = KeysOf<Lanes>(of.scores, of.size, of.keys);
  // Keys from `low` on weigh `found`, at least of.least; those above `high`
  // weigh less than that.
  int64_t found = of.weights == nullptr
                      ? of.size
                      : WeightFrom<Lanes>(of.keys, of.weights, of.size, low);
  for (int pass = 0; low < high && found > of.most; ++pass) {
    const int32_t middle = KeyBetween<Lanes>(low, high, pass);
    const int32_t from_middle =
        WeightFrom<Lanes>(of.keys, of.weights, of.size, middle);
    if (from_middle >= of.least) {
      low = middle;
      found = from_middle;
    } else {
      high = middle - 1;
    }
  }
  return KeyScore<Lanes>(low);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SCORE_CUT_H_
