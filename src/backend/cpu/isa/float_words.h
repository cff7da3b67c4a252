// FloatWords: the Words of float32 K, V, q and weights, over any Lanes.
#ifndef WINNOW_BACKEND_CPU_ISA_FLOAT_WORDS_H_
#define WINNOW_BACKEND_CPU_ISA_FLOAT_WORDS_H_

#include "backend/cpu/isa/prefetch_beside.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

template <class Lanes>
struct FloatWords {
  using F = typename Lanes::F;
  using W = F;
  static constexpr int kPerWord = 1;
  static constexpr int kElementBytes = 4;  // of K and V
  static constexpr CacheLevel kFarLevel = CacheLevel::kSecond;

  [[gnu::always_inline]] static W Load(const float* p) {
    return Lanes::Load(p);
  }
  [[gnu::always_inline]] static W Broadcast(const float* p) {
    return Lanes::Set(*p);
  }
  [[gnu::always_inline]] static F MultiplyAdd(W a, W b, F c) {
    return Lanes::MultiplyAdd(a, b, c);
  }
  [[gnu::always_inline]] static F Exp2(F x) {
    return Lanes::template Exp2<5>(x);
  }
  template <class WeightOf>
  [[gnu::always_inline]] static void StoreWeights(float* to, int key,
                                                  WeightOf&& weight_of) {
    Lanes::Store(to, weight_of(key));
  }
  [[gnu::always_inline]] static void StoreKeyWeights(float* row, int key,
                                                     F weight) {
    Lanes::Store(row + key, weight);
  }

  // V is used where it lies.
  static void PackValues(const TileKeys&, const TileRows&) {}
  template <class Fn>
  [[gnu::always_inline]] static void ForValueWords(const TileKeys& keys,
                                                   const TileRows&, int column,
                                                   Fn&& fn) {
    int key = keys.begin;
    while (key < keys.end) {
      const int half = key / kHalfTokens;
      const int half_end = (half + 1) * kHalfTokens;
      const int end = keys.end < half_end ? keys.end : half_end;
      const auto* v = reinterpret_cast<const float*>(keys.v[half]) + column;
      for (; key < end; ++key) {
        fn(v + key % kHalfTokens * keys.v_stride, key);
      }
    }
  }
  // 16 * kCount columns of V for one key.
  template <int kCount, int kKeys>
  [[gnu::always_inline]] static void LoadValues(const std::byte* v, int,
                                                W (&to)[kCount]) {
    static_assert(kKeys == 1);
    for (int i = 0; i < kCount; ++i) {
      to[i] = Lanes::Load(reinterpret_cast<const float*>(v) + 16 * i);
    }
  }
  // They are in their order.
  static void OrderColumns(float*, int) {}
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_FLOAT_WORDS_H_
