// SoftmaxScores: HeadMap::kSoftmax of one head's scores, over any Lanes.
// Included by kernel files alone.
#ifndef WINNOW_BACKEND_CPU_SOFTMAX_SCORES_H_
#define WINNOW_BACKEND_CPU_SOFTMAX_SCORES_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// f(vector, index) for all scores, 16 at a time; behind the last one stands
// -infinity, which weighs nothing.
template <class Lanes, class F>
[[gnu::always_inline]] inline void ForEachVector(const HeadScores& of, F&& f) {
  int64_t i = 0;
  for (; i + 16 <= of.count; i += 16) f(Lanes::Load(of.scores + i), i);
  if (i == of.count) return;
  float rest[16];
  for (int lane = 0; lane < 16; ++lane) {
    rest[lane] = i + lane < of.count ? of.scores[i + lane] : -__builtin_inff();
  }
  f(Lanes::Load(rest), i);
}

// 2^x, and 0 from 2^-126 down.
template <class Lanes>
[[gnu::always_inline]] inline typename Lanes::F WeightOf(typename Lanes::F x) {
  const auto least = Lanes::Set(-126.0f);
  return Lanes::Select(Lanes::Greater(x, least),
                       Lanes::template Exp2<5>(Lanes::Max(x, least)),
                       Lanes::Zero());
}

// False where a score is NaN: nothing is written then. Three passes over
// scores that stay in the caches.
template <class Lanes>
bool SoftmaxScores(const HeadScores& of) {
  using F = typename Lanes::F;
  int64_t num_nan = 0;
  for (int64_t i = 0; i < of.count; ++i) {
    num_nan += of.scores[i] != of.scores[i] ? 1 : 0;
  }
  if (num_nan > 0) return false;
  constexpr float kLog2E = 1.44269504f;
  const float scale = of.scale * kLog2E;
  F top = Lanes::Set(-__builtin_inff());
  ForEachVector<Lanes>(of, [&](F x, int64_t) { top = Lanes::Max(top, x); });
  float greatest = Lanes::MaxOf(top) * scale;
  const float other = of.other * kLog2E;
  if (greatest < other) greatest = other;
  // Infinite, or nothing to weigh: as plain arithmetic has it.
  if (!(greatest - greatest == 0)) return false;
  F sums = Lanes::Zero();
  const F base = Lanes::Set(greatest);
  const F scales = Lanes::Set(scale);
  ForEachVector<Lanes>(of, [&](F x, int64_t) {
    sums = Lanes::Add(
        sums, WeightOf<Lanes>(Lanes::MultiplySubtract(x, scales, base)));
  });
  const float sum = Lanes::SumOf(sums) + __builtin_exp2f(other - greatest);
  const F lse = Lanes::Set(greatest + __builtin_log2f(sum));
  ForEachVector<Lanes>(of, [&](F x, int64_t i) {
    F weight = WeightOf<Lanes>(Lanes::MultiplySubtract(x, scales, lse));
    if (i + 16 <= of.count) {
      if (of.adds) weight = Lanes::Add(Lanes::Load(of.rows + i), weight);
      Lanes::Store(of.rows + i, weight);
      return;
    }
    float rest[16];
    Lanes::Store(rest, weight);
    for (int lane = 0; i + lane < of.count; ++lane) {
      of.rows[i + lane] = of.adds ? of.rows[i + lane] + rest[lane] : rest[lane];
    }
  });
  return true;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SOFTMAX_SCORES_H_
