// BFloat16Words: pairs of bfloat16 in AVX-512 registers, and V laid out in
// pairs of keys. Included by kernel files that are compiled for AVX512_BF16.
//
// A product of words adds two products to a float32 without rounding between
// them to bfloat16; weights are rounded to bfloat16 before they meet V, as in
// FlashAttention (arXiv 2307.08691), while their sum is of float32.
#ifndef WINNOW_BACKEND_CPU_BFLOAT16_WORDS_H_
#define WINNOW_BACKEND_CPU_BFLOAT16_WORDS_H_

#include <immintrin.h>

#include "backend/cpu/lanes_avx512.h"

namespace winnow {

struct BFloat16Words {
  using F = __m512;
  using W = __m512bh;
  static constexpr int kPerWord = 2;

  [[gnu::always_inline]] static W Load(const float* p) {
    return (__m512bh)_mm512_loadu_si512(p);
  }
  [[gnu::always_inline]] static W Broadcast(const float* p) {
    return (__m512bh)_mm512_set1_ps(*p);
  }
  [[gnu::always_inline]] static F MultiplyAdd(W a, W b, F c) {
    return _mm512_dpbf16_ps(c, a, b);
  }
  [[gnu::always_inline]] static F Exp2(F x) { return Avx512Lanes::Exp2<4>(x); }

  // Word i of the result: halves i of two rows of 16 bfloat16.
  [[gnu::always_inline]] static __m512i Interleave(__m512i rows) {
    const __m512i order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
        6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, rows);
  }

  template <class WeightOf>
  [[gnu::always_inline]] static void StoreWeights(float* to, int key,
                                                  WeightOf&& weight_of) {
    const F first = weight_of(key);
    const F second = weight_of(key + 1);
    _mm512_storeu_si512(
        to, Interleave((__m512i)_mm512_cvtne2ps_pbh(second, first)));
  }
  [[gnu::always_inline]] static void StoreKeyWeights(float* row, int key,
                                                     F weight) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + key / 2),
                        (__m256i)_mm512_cvtneps_pbh(weight));
  }

  // Sixteen columns of V for keys (key, key + 1), as pairs; zeros for a key
  // at the end.
  [[gnu::always_inline]] static __m512i ValuePairs(const TileKeys& keys,
                                                   int key, int column) {
    const auto* v =
        reinterpret_cast<const uint16_t*>(keys.v[key / kTilePageTokens]) +
        key % kTilePageTokens * keys.v_stride + column;
    const __m256i first =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(v));
    const __m256i second =
        key + 1 < keys.end
            ? _mm256_loadu_si256(
                  reinterpret_cast<const __m256i*>(v + keys.v_stride))
            : _mm256_setzero_si256();
    return Interleave(
        _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
  }
  [[gnu::always_inline]] static W LoadValues(const TileKeys& keys, int key,
                                             int column) {
    return (__m512bh)ValuePairs(keys, key, column);
  }

  // packed_v: words [v_dim / 16, 64 pairs of keys, 16 columns].
  static void PackValues(const TileKeys& keys, const TileRows& rows) {
    for (int column = 0; column < keys.v_dim; column += 16) {
      float* packed = rows.packed_v + column / 16 * (kTileKeys / 2) * 16;
      for (int key = keys.begin; key < keys.end; key += 2) {
        _mm512_storeu_si512(packed + key / 2 * 16,
                            ValuePairs(keys, key, column));
      }
    }
  }
  template <class Fn>
  [[gnu::always_inline]] static void ForValueWords(const TileKeys& keys,
                                                   const TileRows& rows,
                                                   int column, Fn&& fn) {
    const float* packed =
        rows.packed_v + column / 16 * (kTileKeys / 2) * 16 + column % 16;
    const int end = (keys.end + 1) / 2;
    for (int pair = keys.begin / 2; pair < end; ++pair) {
      fn(packed + pair * 16, pair);
    }
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_BFLOAT16_WORDS_H_
