// SoftmaxScores: HeadMap of one head's scores, over any Lanes.
// Included by kernel files alone.
#ifndef WINNOW_BACKEND_CPU_ATTEND_SOFTMAX_SCORES_H_
#define WINNOW_BACKEND_CPU_ATTEND_SOFTMAX_SCORES_H_

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// f(vector, index) for all scores, 16 at a time; behind the last one stands
// -infinity, which weighs nothing.
template <class Lanes, class F>
[[gnu::always_inline]] inline void ForEachVector(const float* scores,
                                                 int64_t count, F&& f) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) f(Lanes::Load(scores + i), i);
  if (i == count) return;
  float rest[16];
  for (int lane = 0; lane < 16; ++lane) {
    rest[lane] = i + lane < count ? scores[i + lane] : -__builtin_inff();
  }
  f(Lanes::Load(rest), i);
}

// The first `count` of a vector, or all of it.
template <class Lanes>
[[gnu::always_inline]] inline void StoreFirst(typename Lanes::F x,
                                              int64_t count, float* to) {
  if (count >= 16) return Lanes::Store(to, x);
  float rest[16];
  Lanes::Store(rest, x);
  for (int64_t i = 0; i < count; ++i) to[i] = rest[i];
}

// -infinity where there is none. NaN where one is NaN, and perhaps where one is
// infinite.
template <class Lanes>
[[gnu::always_inline]] inline float GreatestScore(const float* scores,
                                                  int64_t count) {
  using F = typename Lanes::F;
  // Side by side: of one each vector waits for the one before.
  constexpr int kSides = 2;
  F top[kSides], sums[kSides];
  for (int i = 0; i < kSides; ++i) {
    top[i] = Lanes::Set(-__builtin_inff());
    sums[i] = Lanes::Zero();
  }
  const auto take_in = [&](F x, int i) {
    top[i] = Lanes::Max(top[i], x);
    sums[i] = Lanes::Add(sums[i], x);
  };
  int64_t at = 0;
  for (; at + 16 * kSides <= count; at += 16 * kSides) {
#pragma GCC unroll 2
    for (int i = 0; i < kSides; ++i) {
      take_in(Lanes::Load(scores + at + 16 * i), i);
    }
  }
  ForEachVector<Lanes>(scores + at, count - at,
                       [&](F x, int64_t) { take_in(x, 0); });
  for (int i = 1; i < kSides; ++i) {
    top[0] = Lanes::Max(top[0], top[i]);
    sums[0] = Lanes::Add(sums[0], sums[i]);
  }
  const float sum = Lanes::SumOf(sums[0]);
  return sum == sum ? Lanes::MaxOf(top[0]) : sum;
}

// 2^x, and 0 from 2^-126 down.
template <class Lanes>
[[gnu::always_inline]] inline typename Lanes::F WeightOf(typename Lanes::F x) {
  const auto least = Lanes::Set(-126.0f);
  return Lanes::Select(Lanes::Greater(x, least),
                       Lanes::template Exp2<5>(Lanes::Max(x, least)),
                       Lanes::Zero());
}

// Scores times `scale` are exponents of two.
struct WeightSum {
  float greatest = 0;  // exponent; NaN where that is left to others
  float sum = 0;       // of weights over 2^greatest
};

// Of the normaliser. kOwn: that is the scores themselves, whose weights, over
// 2^greatest, go to `weights` too.
template <class Lanes, bool kOwn>
[[gnu::always_inline]] inline WeightSum SumWeights(const HeadScores& of,
                                                   float scale, float other) {
  using F = typename Lanes::F;
  const float* from = kOwn ? of.scores : of.normalizer;
  const int64_t count = kOwn ? of.count : of.num_normalizer;
  float greatest = GreatestScore<Lanes>(from, count) * scale;
  if (greatest < other) greatest = other;
  // NaN, infinite, nothing to weigh, or so large that a rounded product is no
  // exponent: as plain arithmetic has it.
  if (!(__builtin_fabsf(greatest) < 0x1p20f)) return {__builtin_nanf(""), 0};
  F sums = Lanes::Zero();
  const F base = Lanes::Set(greatest);
  const F scales = Lanes::Set(scale);
  ForEachVector<Lanes>(from, count, [&](F x, int64_t i) {
    const F weight = WeightOf<Lanes>(Lanes::MultiplySubtract(x, scales, base));
    sums = Lanes::Add(sums, weight);
    if constexpr (kOwn) StoreFirst<Lanes>(weight, count - i, of.weights + i);
  });
  return {greatest, Lanes::SumOf(sums) + __builtin_exp2f(other - greatest)};
}

// rows[i] = taken(rows[i], weight(from[i])) for i < count.
template <class Lanes, class Weight, class Taken>
[[gnu::always_inline]] inline void TakeIn(const float* from, int64_t count,
                                          float* rows, const Weight& weight,
                                          const Taken& taken) {
  using F = typename Lanes::F;
  ForEachVector<Lanes>(from, count, [&](F x, int64_t i) {
    if (i + 16 <= count) {
      Lanes::Store(rows + i, taken(Lanes::Load(rows + i), weight(x)));
      return;
    }
    float before[16] = {};
    for (int64_t j = i; j < count; ++j) before[j - i] = rows[j];
    StoreFirst<Lanes>(taken(Lanes::Load(before), weight(x)), count - i,
                      rows + i);
  });
}

template <class Lanes, class Weight>
[[gnu::always_inline]] inline void TakeIn(const HeadScores& of,
                                          const float* from,
                                          const Weight& weight) {
  using F = typename Lanes::F;
  switch (of.to) {
    case HeadScores::To::kRows:
      return TakeIn<Lanes>(from, of.count, of.rows, weight,
                           [](F, F later) { return later; });
    case HeadScores::To::kSums:
      return TakeIn<Lanes>(from, of.count, of.rows, weight, [](F sum, F later) {
        return Lanes::Add(sum, later);
      });
    case HeadScores::To::kGreatest:
      return TakeIn<Lanes>(from, of.count, of.rows, weight, [](F top, F later) {
        return Lanes::Max(later, top);  // a NaN that was there stays
      });
  }
}

// Passes over scores that stay in the caches, with one exponential for each
// number.
template <class Lanes>
bool SoftmaxScores(const HeadScores& of) {
  using F = typename Lanes::F;
  constexpr float kLog2E = 1.44269504f;
  const float scale = of.scale * kLog2E;
  const float other = of.other * kLog2E;
  if (of.normalizer == nullptr) {
    const WeightSum own = SumWeights<Lanes, true>(of, scale, other);
    if (own.greatest != own.greatest) return false;
    const F share = Lanes::Set(1 / own.sum);
    TakeIn<Lanes>(of, of.weights,
                  [&](F weight) { return Lanes::Multiply(weight, share); });
    return true;
  }
  const WeightSum others = SumWeights<Lanes, false>(of, scale, other);
  const float log_of_sum = others.greatest + __builtin_log2f(others.sum);
  const float greatest = GreatestScore<Lanes>(of.scores, of.count) * scale;
  if (!(greatest - log_of_sum < 126)) return false;  // or NaN
  const F lse = Lanes::Set(log_of_sum);
  const F scales = Lanes::Set(scale);
  TakeIn<Lanes>(of, of.scores, [&](F x) {
    return WeightOf<Lanes>(Lanes::MultiplySubtract(x, scales, lse));
  });
  return true;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_SOFTMAX_SCORES_H_
