// Sixteen floats in an AVX-512 register, and words of one float32. Included by
// kernel files that are compiled for AVX-512 alone.
#ifndef WINNOW_BACKEND_CPU_ISA_LANES_AVX512_H_
#define WINNOW_BACKEND_CPU_ISA_LANES_AVX512_H_

#include <immintrin.h>

#include "backend/cpu/attend/attend_tile.h"

namespace winnow {

// One register of words of K and q, as the Products of ScoresByKey have it.
struct Avx512Register {
  using V = __m512;
  using Four = __m512;
  static constexpr int kWords = 16;
  // Rows and keys whose sums stand in registers.
  static constexpr int kMaxRows = 4;
  static constexpr int kKeys = 4;
  static constexpr bool kUnrolls = true;

  [[gnu::always_inline]] static V Zero() { return _mm512_setzero_ps(); }
  // The last kWords - kCount are zeros.
  template <int kCount>
  [[gnu::always_inline]] static V Load(const float* from) {
    if constexpr (kCount == kWords) return _mm512_loadu_ps(from);
    return _mm512_maskz_loadu_ps((1 << kCount) - 1, from);
  }
  // Of 16 pairs of bfloat16, the first ones and the second ones as float32.
  [[gnu::always_inline]] static V LowHalf(V x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 16));
  }
  [[gnu::always_inline]] static V HighHalf(V x) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(-65536)));
  }
  // The numbers of kCount words, in their order: of eight, all in `first`.
  template <int kCount>
  [[gnu::always_inline]] static void LoadFloat16(const std::byte* from,
                                                 V& first, V& second) {
    first = WidenFloat16(from);
    second = kCount == kWords ? WidenFloat16(from + 32) : Zero();
  }
  // Sixteen of them.
  [[gnu::always_inline]] static V WidenFloat16(const std::byte* from) {
    return _mm512_cvtph_ps(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  [[gnu::always_inline]] static V MultiplyAdd(V x, V y, V z) {
    return _mm512_fmadd_ps(x, y, z);
  }
  // In each quarter lanes 0 and 2 add up to that of `first`, 1 and 3 to that of
  // `second`.
  [[gnu::always_inline]] static V AddLanes(V first, V second) {
    return _mm512_add_ps(_mm512_unpacklo_ps(first, second),
                         _mm512_unpackhi_ps(first, second));
  }
  // Of two such pairs: lane i of each quarter is the sum of number i's there.
  [[gnu::always_inline]] static Four AddPairs(V first, V second) {
    const __m512d a = _mm512_castps_pd(first);
    const __m512d b = _mm512_castps_pd(second);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  // The sums of sixteen: quarter j are those of all quarters of of[j].
  [[gnu::always_inline]] static V SumsOf(const Four (&of)[4]) {
    const auto fold = [](V a, V b) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88),
                           _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    return fold(fold(of[0], of[1]), fold(of[2], of[3]));
  }
  [[gnu::always_inline]] static void Store(float* to, const Four (&of)[4]) {
    _mm512_storeu_ps(to, SumsOf(of));
  }
};

// Numbers of E4M3 times a scale as bfloat16. Sign, exponent and fraction go
// where bfloat16 has them, and the exponent is made the scale's; the seven
// numbers below the least normal one are looked up. (By float32, and a tile's
// copies in place of a page's, Select of `quest` in fp8 took 0.22 and 0.21 ms
// by two CPUs of a Zen 4, now 0.18 and 0.19:
// record 2026-11-27-bf5438e-verbs-in-turn.json.)
class Avx512Float8Pairs {
 public:
  // REQUIRES: ScalesToNormal(scale).
  [[gnu::always_inline]] explicit Avx512Float8Pairs(float scale) {
    // Bits of bfloat16 that add to an exponent what the scale's is above one.
    const auto of_scale =
        static_cast<int16_t>((__builtin_bit_cast(int32_t, scale) >> 16) - kOne);
    rebias_ =
        _mm512_set1_epi16(static_cast<int16_t>(of_scale + kExponentsApart));
    // 0 to 7 times 2^-9.
    const __m128i least = _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00,
                                         0x3c20, 0x3c40, 0x3c60);
    const __m512i small = _mm512_broadcast_i32x4(least);
    small_ = _mm512_mask_add_epi16(small, _mm512_test_epi16_mask(small, small),
                                   small, _mm512_set1_epi16(of_scale));
  }

  // Thirty-two.
  [[gnu::always_inline]] void Write(const uint8_t* from, uint16_t* to) const {
    const __m512i bits = _mm512_cvtepu8_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    const __m512i magnitude =
        _mm512_slli_epi16(_mm512_and_si512(bits, _mm512_set1_epi16(0x7f)), 4);
    const __mmask32 normal =
        _mm512_test_epi16_mask(bits, _mm512_set1_epi16(0x78));
    const __m512i number = _mm512_mask_add_epi16(
        _mm512_permutexvar_epi16(bits, small_), normal, magnitude, rebias_);
    // number | (bits << 8 & the sign)
    constexpr int kOrAnd = 0xf8;
    _mm512_storeu_si512(
        to, _mm512_ternarylogic_epi64(
                number, _mm512_slli_epi16(bits, 8),
                _mm512_set1_epi16(static_cast<int16_t>(0x8000)), kOrAnd));
  }

 private:
  static constexpr int kOne = 0x3f80;               // as bfloat16
  static constexpr int kExponentsApart = 120 << 7;  // of E4M3 and bfloat16
  __m512i rebias_;
  __m512i small_;  // by the low five bits of E4M3: the eight numbers four times
};

struct Avx512Lanes {
  using Register = Avx512Register;
  using Float8Pairs = Avx512Float8Pairs;
  using F = __m512;
  using Mask = __mmask16;
  struct KeyRange {
    __m512i first, last;
  };
  static constexpr int kUnitVectors = 4;
  static constexpr int kUnitRowStep = 4;
  static constexpr int kCentroidStep = 8;

  [[gnu::always_inline]] static F Zero() { return _mm512_setzero_ps(); }
  [[gnu::always_inline]] static F Set(float x) { return _mm512_set1_ps(x); }
  // Of 16 pairs of bfloat16, the first ones and the second ones as float32.
  [[gnu::always_inline]] static F LowHalves(F x) {
    return Register::LowHalf(x);
  }
  [[gnu::always_inline]] static F HighHalves(F x) {
    return Register::HighHalf(x);
  }
  // Sixteen float16 as float32.
  [[gnu::always_inline]] static F WidenFloat16(const std::byte* from) {
    return Register::WidenFloat16(from);
  }
  // Sixteen bfloat16.
  [[gnu::always_inline]] static F Widen(const std::byte* from) {
    const __m256i bits =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  // Thirty-two, in the order that takes one instruction for each register.
  static constexpr int kApartVectors = 2;
  [[gnu::always_inline]] static void WidenApart(const std::byte* from, F* to) {
    const F words = _mm512_loadu_ps(from);
    to[0] = LowHalves(words);
    to[1] = HighHalves(words);
  }
  // Puts what came so at p[0, 32) in its order.
  [[gnu::always_inline]] static void OrderApart(float* p) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19,  //
                                          4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const F first = Load(p);
    const F second = Load(p + 16);
    Store(p, _mm512_permutex2var_ps(first, low, second));
    Store(p + 16, _mm512_permutex2var_ps(first, high, second));
  }
  [[gnu::always_inline]] static F Load(const float* p) {
    return _mm512_loadu_ps(p);
  }
  [[gnu::always_inline]] static void Store(float* p, F x) {
    _mm512_storeu_ps(p, x);
  }
  [[gnu::always_inline]] static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  [[gnu::always_inline]] static F Subtract(F a, F b) {
    return _mm512_sub_ps(a, b);
  }
  [[gnu::always_inline]] static F Multiply(F a, F b) {
    return _mm512_mul_ps(a, b);
  }
  [[gnu::always_inline]] static F Divide(F a, F b) {
    return _mm512_div_ps(a, b);
  }
  [[gnu::always_inline]] static F MultiplyAdd(F a, F b, F c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  [[gnu::always_inline]] static F MultiplySubtract(F a, F b, F c) {
    return _mm512_fmsub_ps(a, b, c);
  }
  [[gnu::always_inline]] static F Max(F a, F b) { return _mm512_max_ps(a, b); }
  [[gnu::always_inline]] static Mask Greater(F a, F b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
  }
  [[gnu::always_inline]] static F Select(Mask mask, F yes, F no) {
    return _mm512_mask_blend_ps(mask, no, yes);
  }

  [[gnu::always_inline]] static KeyRange Range(const int32_t* first,
                                               const int32_t* last) {
    return {_mm512_loadu_si512(first), _mm512_loadu_si512(last)};
  }
  // Which lanes' ranges hold `key`.
  [[gnu::always_inline]] static Mask Holds(const KeyRange& range, int key) {
    const __m512i keys = _mm512_set1_epi32(key);
    return _mm512_mask_cmple_epi32_mask(
        _mm512_cmple_epi32_mask(range.first, keys), keys, range.last);
  }
  // Which of the keys base, base + 1, ... are in [first, last].
  [[gnu::always_inline]] static Mask KeysIn(int base, int first, int last) {
    const __m512i keys = _mm512_add_epi32(
        _mm512_set1_epi32(base), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                                   10, 11, 12, 13, 14, 15));
    return _mm512_mask_cmple_epi32_mask(
        _mm512_cmple_epi32_mask(_mm512_set1_epi32(first), keys), keys,
        _mm512_set1_epi32(last));
  }
  // Lane i where bit i of `bits` is set.
  [[gnu::always_inline]] static Mask LanesOf(uint32_t bits) {
    return static_cast<Mask>(bits);
  }
  // Lane i where words[i] has bit `bit`.
  [[gnu::always_inline]] static Mask HaveBit(const uint32_t* words, int bit) {
    return _mm512_test_epi32_mask(
        _mm512_loadu_si512(words),
        _mm512_set1_epi32(static_cast<int>(uint32_t{1} << bit)));
  }

  // Writes those of scores[0, 16) that are `least` or more to kept, and base +
  // their place to indices; returns how many. Writes up to 16 of each.
  [[gnu::always_inline]] static int AppendFrom(const float* scores, float least,
                                               int32_t base, float* kept,
                                               int32_t* indices) {
    const F of_scores = Load(scores);
    const __mmask16 mask =
        _mm512_cmp_ps_mask(of_scores, Set(least), _CMP_GE_OQ);
    const __m512i places = _mm512_add_epi32(
        _mm512_set1_epi32(base), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                                   10, 11, 12, 13, 14, 15));
    // To memory directly it is a slow instruction.
    const F few = _mm512_maskz_compress_ps(mask, of_scores);
    const __m512i at = _mm512_maskz_compress_epi32(mask, places);
    const int count = __builtin_popcount(mask);
    // Most have few, and 16 bytes are within a line mostly.
    if (count <= 4) [[likely]] {
      _mm_storeu_ps(kept, _mm512_castps512_ps128(few));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(indices),
                       _mm512_castsi512_si128(at));
    } else {
      Store(kept, few);
      _mm512_storeu_si512(indices, at);
    }
    return count;
  }

  // Halves are folded: lane i + lane i + 8, then 4, 2, 1.
  [[gnu::always_inline]] static float SumOf(F x) {
    return _mm512_reduce_add_ps(x);
  }
  [[gnu::always_inline]] static float MaxOf(F x) {
    return _mm512_reduce_max_ps(x);
  }

  // Lane r: MaxOf(rows[r]).
  [[gnu::always_inline]] static F MaxOfEach(const F (&rows)[4]) {
    const __m512d first =
        _mm512_castps_pd(Max(_mm512_unpacklo_ps(rows[0], rows[1]),
                             _mm512_unpackhi_ps(rows[0], rows[1])));
    const __m512d second =
        _mm512_castps_pd(Max(_mm512_unpacklo_ps(rows[2], rows[3]),
                             _mm512_unpackhi_ps(rows[2], rows[3])));
    const F quarters = Max(_mm512_castpd_ps(_mm512_unpacklo_pd(first, second)),
                           _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)));
    const F halves =
        Max(quarters, _mm512_shuffle_f32x4(quarters, quarters, 0x4e));
    return Max(halves, _mm512_shuffle_f32x4(halves, halves, 0xb1));
  }
  [[gnu::always_inline]] static F MaxOfEach(const F (&rows)[1]) {
    return Set(MaxOf(rows[0]));
  }

  // 2^x for x < 127 by a polynomial of degree 5 on [-1/2, 1/2], exact at 0;
  // relative error 1.7e-7 (2.9e-6 with degree 4).
  template <int kDegree>
  [[gnu::always_inline]] static F Exp2(F x) {
    const F whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT);
    const F part = _mm512_sub_ps(x, whole);
    F y;
    if constexpr (kDegree == 5) {
      y = MultiplyAdd(Set(0x1.5bba22p-10f), part, Set(0x1.3cea92p-7f));
      y = MultiplyAdd(y, part, Set(0x1.c6b754p-5f));
      y = MultiplyAdd(y, part, Set(0x1.ebf9bcp-3f));
      y = MultiplyAdd(y, part, Set(0x1.62e42ap-1f));
    } else {
      static_assert(kDegree == 4);
      y = MultiplyAdd(Set(0x1.3a02d2p-7f), part, Set(0x1.c9fc5cp-5f));
      y = MultiplyAdd(y, part, Set(0x1.ec0378p-3f));
      y = MultiplyAdd(y, part, Set(0x1.62e12cp-1f));
    }
    return _mm512_scalef_ps(MultiplyAdd(y, part, Set(1.0f)), whole);
  }

  // Lane t of to[i] = from[t * stride + i], for `count` words i, 8 or 16.
  [[gnu::always_inline]] static void Transpose16(const float* from, int stride,
                                                 int count, F (&to)[16]) {
    const auto wanted = static_cast<__mmask16>(count == 16 ? 0xffff : 0xff);
    __m512 a[16], b[16];
    for (int t = 0; t < 16; ++t) {
      a[t] = _mm512_maskz_loadu_ps(wanted, from + t * stride);
    }
    for (int t = 0; t < 16; t += 2) {
      b[t] = _mm512_unpacklo_ps(a[t], a[t + 1]);
      b[t + 1] = _mm512_unpackhi_ps(a[t], a[t + 1]);
    }
    for (int t = 0; t < 16; t += 4) {
      for (int j = 0; j < 2; ++j) {
        const __m512d low = _mm512_castps_pd(b[t + j]);
        const __m512d high = _mm512_castps_pd(b[t + 2 + j]);
        a[t + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
        a[t + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
      }
    }
    // a[4 q + j] holds word 4 l + j of tokens 4 q .. 4 q + 3 in its quarter l.
    for (int j = 0; j < 4; ++j) {
      b[j] = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x88);
      b[4 + j] = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xdd);
      b[8 + j] = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x88);
      b[12 + j] = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xdd);
    }
    for (int j = 0; j < 4; ++j) {
      to[j] = _mm512_shuffle_f32x4(b[j], b[8 + j], 0x88);
      to[8 + j] = _mm512_shuffle_f32x4(b[j], b[8 + j], 0xdd);
      to[4 + j] = _mm512_shuffle_f32x4(b[4 + j], b[12 + j], 0x88);
      to[12 + j] = _mm512_shuffle_f32x4(b[4 + j], b[12 + j], 0xdd);
    }
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_LANES_AVX512_H_
