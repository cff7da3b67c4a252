// BFloat16Pairs: pairs of bfloat16 as Words of scores alone, for sets without
// products of bfloat16. Both of a pair are widened where they are used, the
// first one first: a score is what FloatWords make of the same numbers, bit for
// bit, without a copy of them in float32.
#ifndef WINNOW_BACKEND_CPU_BFLOAT16_PAIRS_H_
#define WINNOW_BACKEND_CPU_BFLOAT16_PAIRS_H_

#include "backend/cpu/fetch_beside.h"

namespace winnow {

// Lanes say what the low and high halves of 16 words are as float32.
template <class Lanes>
struct BFloat16Pairs {
  using F = typename Lanes::F;
  struct W {
    F low, high;
  };
  static constexpr int kPerWord = 2;
  static constexpr FarLevel kFarLevel = FarLevel::kSecond;

  [[gnu::always_inline]] static W Load(const float* p) {
    return WidenedOf(Lanes::Load(p));
  }
  [[gnu::always_inline]] static W Broadcast(const float* p) {
    return WidenedOf(Lanes::Set(*p));
  }
  [[gnu::always_inline]] static F MultiplyAdd(W a, W b, F c) {
    return Lanes::MultiplyAdd(a.high, b.high,
                              Lanes::MultiplyAdd(a.low, b.low, c));
  }

 private:
  [[gnu::always_inline]] static W WidenedOf(F words) {
    return {Lanes::LowHalves(words), Lanes::HighHalves(words)};
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_BFLOAT16_PAIRS_H_
