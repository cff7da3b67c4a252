// ReduceHeads: the scores of a list's heads as one a summary row, over any
// Lanes. Included by kernel files alone.
#ifndef WINNOW_BACKEND_CPU_SELECT_REDUCE_HEADS_H_
#define WINNOW_BACKEND_CPU_SELECT_REDUCE_HEADS_H_

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Of 16 summary rows: load(head) has a head's scores. What is NaN, a head's or
// the sum of heads, is no number that others are greater than: as std::max has
// it, and then -infinity.
template <class Lanes, class Load>
[[gnu::always_inline]] inline typename Lanes::F ReducedHeads(const HeadRows& of,
                                                             Load&& load) {
  typename Lanes::F result = load(0);
  for (int head = 1; head < of.num_heads; ++head) {
    const typename Lanes::F scores = load(head);
    result = of.takes_greatest ? Lanes::Max(scores, result)
                               : Lanes::Add(result, scores);
  }
  if (of.divisor != 1) result = Lanes::Divide(result, Lanes::Set(of.divisor));
  return Lanes::Max(result, Lanes::Set(-__builtin_inff()));
}

template <class Lanes>
void ReduceHeads(const HeadRows& of, float* to) {
  int64_t i = 0;
  for (; i + 16 <= of.count; i += 16) {
    Lanes::Store(to + i, ReducedHeads<Lanes>(of, [&](int head) {
                   return Lanes::Load(of.scores + head * of.stride + i);
                 }));
  }
  if (i == of.count) return;
  float rest[16];
  Lanes::Store(rest, ReducedHeads<Lanes>(of, [&](int head) {
                 const float* scores = of.scores + head * of.stride;
                 float padded[16] = {};
                 for (int64_t j = i; j < of.count; ++j) {
                   padded[j - i] = scores[j];
                 }
                 return Lanes::Load(padded);
               }));
  for (int64_t j = i; j < of.count; ++j) to[j] = rest[j - i];
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_REDUCE_HEADS_H_
