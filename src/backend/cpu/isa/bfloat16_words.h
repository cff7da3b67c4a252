// BFloat16Words: pairs of bfloat16 in AVX-512 registers, and V laid out in
// pairs of keys. Included by kernel files that are compiled for AVX512_BF16.
//
// A product of words adds two products to a float32 without rounding between
// them to bfloat16; weights are rounded to bfloat16 before they meet V, as in
// FlashAttention (arXiv 2307.08691), while their sum is of float32.
#ifndef WINNOW_BACKEND_CPU_ISA_BFLOAT16_WORDS_H_
#define WINNOW_BACKEND_CPU_ISA_BFLOAT16_WORDS_H_

#include <immintrin.h>

#include "backend/cpu/isa/lanes_avx512.h"
#include "backend/cpu/select/scores_by_key.h"

namespace winnow {

// Of ScoresByKey.
struct PairProducts {
  using Words = __m512bh;
  using Sums = __m512;
  using Four = Avx512Register::Four;
  static constexpr int kWords = Avx512Register::kWords;
  static constexpr int kMaxRows = 4;
  static constexpr int kKeys = 4;
  static constexpr int kQueryFloats = 1;   // a word
  static constexpr int kElementBytes = 2;  // of K
  static constexpr bool kUnrolls = true;

  [[gnu::always_inline]] static Sums Zero() { return Avx512Register::Zero(); }
  template <int kCount>
  [[gnu::always_inline]] static Words LoadKey(const std::byte* k) {
    return (__m512bh)Avx512Register::Load<kCount>(
        reinterpret_cast<const float*>(k));
  }
  template <int kCount>
  [[gnu::always_inline]] static Words LoadQuery(const float* q, int, int word) {
    return (__m512bh)Avx512Register::Load<kCount>(q + word);
  }
  [[gnu::always_inline]] static Sums MultiplyAdd(Words k, Words q, Sums sum) {
    return _mm512_dpbf16_ps(sum, k, q);
  }
  [[gnu::always_inline]] static Sums AddLanes(Sums first, Sums second) {
    return Avx512Register::AddLanes(first, second);
  }
  [[gnu::always_inline]] static Four AddPairs(Sums first, Sums second) {
    return Avx512Register::AddPairs(first, second);
  }
  [[gnu::always_inline]] static void Store(float* to, const Four (&of)[4]) {
    Avx512Register::Store(to, of);
  }
};

struct BFloat16Words {
  using F = __m512;
  using W = __m512bh;
  static constexpr int kPerWord = 2;
  static constexpr int kElementBytes = 2;  // of K and V
  static constexpr CacheLevel kFarLevel = CacheLevel::kSecond;
  // A unit's scores need no transposed K.
  using StoredKeys = ScoresByKey<PairProducts, kFarLevel>;

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

  // Sixteen columns of V for kKeys keys, as pairs.
  template <int kKeys>
  [[gnu::always_inline]] static __m512i Pairs(const std::byte* v,
                                              int row_bytes) {
    const __m256i first =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(v));
    const __m256i second =
        kKeys == 2 ? _mm256_loadu_si256(
                         reinterpret_cast<const __m256i*>(v + row_bytes))
                   : _mm256_setzero_si256();
    return Interleave(
        _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
  }
  // 16 * kCount columns of V for kKeys keys; zeros for a second that is none.
  // Two vectors of columns hold fours of them in turns, which take one
  // instruction each: OrderColumns.
  template <int kCount, int kKeys>
  [[gnu::always_inline]] static void LoadValues(const std::byte* v,
                                                int row_bytes,
                                                W (&to)[kCount]) {
    const std::byte* second_row = v + row_bytes;
    for (int i = 0; i + 2 <= kCount; i += 2) {
      const __m512i first = LoadOnce(v + 32 * i);
      const __m512i second =
          kKeys == 2 ? LoadOnce(second_row + 32 * i) : _mm512_setzero_si512();
      to[i] = (__m512bh)_mm512_unpacklo_epi16(first, second);
      to[i + 1] = (__m512bh)_mm512_unpackhi_epi16(first, second);
    }
    if constexpr (kCount % 2 != 0) {
      to[kCount - 1] = (__m512bh)Pairs<kKeys>(v + 32 * (kCount - 1), row_bytes);
    }
  }
  // GCC 12 would load again for each use.
  [[gnu::always_inline]] static __m512i LoadOnce(const std::byte* from) {
    __m512i line = _mm512_loadu_si512(from);
    asm("" : "+v"(line));
    return line;
  }
  // Puts `count` columns, a multiple of 32, of what LoadValues' vectors were
  // multiplied into in their order.
  static void OrderColumns(float* values, int count) {
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19,  //
                                          4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int i = 0; i < count; i += 32) {
      const __m512 first = _mm512_loadu_ps(values + i);
      const __m512 second = _mm512_loadu_ps(values + i + 16);
      _mm512_storeu_ps(values + i, _mm512_permutex2var_ps(first, low, second));
      _mm512_storeu_ps(values + i + 16,
                       _mm512_permutex2var_ps(first, high, second));
    }
  }

  // packed_v: words [v_dim / 16, 64 pairs of keys, 16 columns].
  static void PackValues(const TileKeys& keys, const TileRows& rows) {
    for (int column = 0; column < keys.v_dim; column += 16) {
      float* packed = rows.packed_v + column / 16 * (kTileKeys / 2) * 16;
      for (int key = keys.begin; key < keys.end; key += 2) {
        const std::byte* v = keys.v[key / kHalfTokens] +
                             (key % kHalfTokens * keys.v_stride + column) * 2;
        _mm512_storeu_si512(packed + key / 2 * 16,
                            key + 1 < keys.end ? Pairs<2>(v, keys.v_stride * 2)
                                               : Pairs<1>(v, 0));
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

// The same for CPUs whose first cache level is better fetched into from afar.
struct BFloat16WordsFarFirst : BFloat16Words {
  static constexpr CacheLevel kFarLevel = CacheLevel::kFirst;
  using StoredKeys = ScoresByKey<PairProducts, kFarLevel>;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_BFLOAT16_WORDS_H_
