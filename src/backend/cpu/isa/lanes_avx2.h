// Sixteen floats in two AVX2 registers. Included by kernel files that are
// compiled for AVX2, FMA and F16C alone.
#ifndef WINNOW_BACKEND_CPU_ISA_LANES_AVX2_H_
#define WINNOW_BACKEND_CPU_ISA_LANES_AVX2_H_

#include <immintrin.h>

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// One register of words of K and q, as WidenedProducts has it.
struct Avx2Register {
  using V = __m256;
  using Four = __m128;
  static constexpr int kWords = 8;
  // Rows and keys whose sums stand in registers.
  static constexpr int kMaxRows = 4;
  static constexpr int kKeys = 2;
  static constexpr bool kUnrolls = false;

  [[gnu::always_inline]] static V Zero() { return _mm256_setzero_ps(); }
  template <int kCount>
  [[gnu::always_inline]] static V Load(const float* from) {
    static_assert(kCount == kWords);
    return _mm256_loadu_ps(from);
  }
  // Of eight pairs of bfloat16, the first ones and the second ones as float32.
  [[gnu::always_inline]] static V LowHalf(V x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 16));
  }
  [[gnu::always_inline]] static V HighHalf(V x) {
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(-65536)));
  }
  // The numbers of kCount words, in their order.
  template <int kCount>
  [[gnu::always_inline]] static void LoadFloat16(const std::byte* from,
                                                 V& first, V& second) {
    static_assert(kCount == kWords);
    first = WidenFloat16(from);
    second = WidenFloat16(from + 16);
  }
  // Eight of them.
  [[gnu::always_inline]] static V WidenFloat16(const std::byte* from) {
    return _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  [[gnu::always_inline]] static V MultiplyAdd(V x, V y, V z) {
    return _mm256_fmadd_ps(x, y, z);
  }
  // Halves are folded: lane i + lane i + 4, then 2, 1.
  [[gnu::always_inline]] static float SumOf(V x) {
    const __m128 four =
        _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // In each half lanes 0 and 2 add up to all of `first`, 1 and 3 of `second`.
  [[gnu::always_inline]] static V AddLanes(V first, V second) {
    return _mm256_add_ps(_mm256_unpacklo_ps(first, second),
                         _mm256_unpackhi_ps(first, second));
  }
  // The sums of four, of two such pairs.
  [[gnu::always_inline]] static Four AddPairs(V first, V second) {
    const __m256d a = _mm256_castps_pd(first);
    const __m256d b = _mm256_castps_pd(second);
    const V halves = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                                   _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    return _mm_add_ps(_mm256_castps256_ps128(halves),
                      _mm256_extractf128_ps(halves, 1));
  }
  // The sums of sixteen.
  [[gnu::always_inline]] static void Store(float* to, const Four (&of)[4]) {
    for (int i = 0; i < 4; ++i) _mm_storeu_ps(to + 4 * i, of[i]);
  }
};

// bits[mask]: the places of the bits of a mask that are set, ascending, then
// zeros.
struct PlacesOf {
  uint8_t bits[256][8] = {};

  constexpr PlacesOf() {
    for (int mask = 0; mask < 256; ++mask) {
      int count = 0;
      for (int bit = 0; bit < 8; ++bit) {
        if ((mask >> bit & 1) != 0) {
          bits[mask][count++] = static_cast<uint8_t>(bit);
        }
      }
    }
  }
};
inline constexpr PlacesOf kPlacesOf;

struct Avx2Lanes {
  using Register = Avx2Register;
  struct F {
    __m256 a, b;  // lanes 0 to 7, 8 to 15
  };
  using Mask = F;  // all bits of a chosen lane
  struct KeyRange {
    __m256i first_a, first_b, last_a, last_b;
  };
  static constexpr int kUnitVectors = 2;
  static constexpr int kUnitRowStep = 2;
  static constexpr int kCentroidStep = 2;

  [[gnu::always_inline]] static F Zero() { return Set(0); }
  [[gnu::always_inline]] static F Set(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
  }
  [[gnu::always_inline]] static F Load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  [[gnu::always_inline]] static void Store(float* p, F x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  [[gnu::always_inline]] static F Add(F x, F y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  // Of 16 pairs of bfloat16, the first ones and the second ones as float32.
  [[gnu::always_inline]] static F LowHalves(F x) {
    return {Register::LowHalf(x.a), Register::LowHalf(x.b)};
  }
  [[gnu::always_inline]] static F HighHalves(F x) {
    return {Register::HighHalf(x.a), Register::HighHalf(x.b)};
  }
  // Sixteen float16 as float32.
  [[gnu::always_inline]] static F WidenFloat16(const std::byte* from) {
    return {Register::WidenFloat16(from), Register::WidenFloat16(from + 16)};
  }
  // Sixteen bfloat16.
  [[gnu::always_inline]] static F Widen(const std::byte* from) {
    const auto widen = [&](int at) {
      const __m128i bits =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    };
    return {widen(0), widen(16)};
  }
  // Sixteen, in the order that takes one instruction for each register.
  static constexpr int kApartVectors = 1;
  [[gnu::always_inline]] static void WidenApart(const std::byte* from, F* to) {
    __m256 words = _mm256_loadu_ps(reinterpret_cast<const float*>(from));
    asm("" : "+x"(words));  // GCC 12 would load again for each use
    *to = {Register::LowHalf(words), Register::HighHalf(words)};
  }
  // Puts what came so at p[0, 16) in its order.
  [[gnu::always_inline]] static void OrderApart(float* p) {
    const F x = Load(p);
    const __m256 low = _mm256_unpacklo_ps(x.a, x.b);
    const __m256 high = _mm256_unpackhi_ps(x.a, x.b);
    Store(p, {_mm256_permute2f128_ps(low, high, 0x20),
              _mm256_permute2f128_ps(low, high, 0x31)});
  }
  [[gnu::always_inline]] static F Subtract(F x, F y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
  }
  [[gnu::always_inline]] static F Multiply(F x, F y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  [[gnu::always_inline]] static F Divide(F x, F y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
  }
  [[gnu::always_inline]] static F MultiplyAdd(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  [[gnu::always_inline]] static F MultiplySubtract(F x, F y, F z) {
    return {_mm256_fmsub_ps(x.a, y.a, z.a), _mm256_fmsub_ps(x.b, y.b, z.b)};
  }
  [[gnu::always_inline]] static F Max(F x, F y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
  }
  [[gnu::always_inline]] static Mask Greater(F x, F y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ),
            _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)};
  }
  [[gnu::always_inline]] static F Select(Mask mask, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, mask.a),
            _mm256_blendv_ps(no.b, yes.b, mask.b)};
  }

  [[gnu::always_inline]] static KeyRange Range(const int32_t* first,
                                               const int32_t* last) {
    const auto load = [](const int32_t* p) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    };
    return {load(first), load(first + 8), load(last), load(last + 8)};
  }
  // first <= key <= last in each lane.
  [[gnu::always_inline]] static __m256 Between(__m256i first, __m256i key,
                                               __m256i last) {
    const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(first, key),
                                            _mm256_cmpgt_epi32(key, last));
    return _mm256_castsi256_ps(
        _mm256_andnot_si256(outside, _mm256_set1_epi32(-1)));
  }
  // Which lanes' ranges hold `key`.
  [[gnu::always_inline]] static Mask Holds(const KeyRange& range, int key) {
    const __m256i keys = _mm256_set1_epi32(key);
    return {Between(range.first_a, keys, range.last_a),
            Between(range.first_b, keys, range.last_b)};
  }
  // Which of the keys base, base + 1, ... are in [first, last].
  [[gnu::always_inline]] static Mask KeysIn(int base, int first, int last) {
    const __m256i keys = _mm256_add_epi32(
        _mm256_set1_epi32(base), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i firsts = _mm256_set1_epi32(first);
    const __m256i lasts = _mm256_set1_epi32(last);
    return {
        Between(firsts, keys, lasts),
        Between(firsts, _mm256_add_epi32(keys, _mm256_set1_epi32(8)), lasts)};
  }
  // All bits of the lanes whose word has one of `bits`.
  [[gnu::always_inline]] static __m256 AnyBit(__m256i words, __m256i bits) {
    return _mm256_castsi256_ps(
        _mm256_xor_si256(_mm256_cmpeq_epi32(_mm256_and_si256(words, bits),
                                            _mm256_setzero_si256()),
                         _mm256_set1_epi32(-1)));
  }
  // Lane i where bit i of `bits` is set.
  [[gnu::always_inline]] static Mask LanesOf(uint32_t bits) {
    const __m256i words = _mm256_set1_epi32(static_cast<int>(bits));
    const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return {AnyBit(words, low), AnyBit(words, _mm256_slli_epi32(low, 8))};
  }
  // Lane i where words[i] has bit `bit`.
  [[gnu::always_inline]] static Mask HaveBit(const uint32_t* words, int bit) {
    const __m256i bits =
        _mm256_set1_epi32(static_cast<int>(uint32_t{1} << bit));
    const auto load = [](const uint32_t* p) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    };
    return {AnyBit(load(words), bits), AnyBit(load(words + 8), bits)};
  }

  // Halves are folded: lane i + lane i + 8, then 4, 2, 1.
  [[gnu::always_inline]] static float SumOf(F x) {
    return Register::SumOf(_mm256_add_ps(x.a, x.b));
  }
  [[gnu::always_inline]] static float MaxOf(F x) {
    const __m256 eight = _mm256_max_ps(x.a, x.b);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight),
                                   _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  // Lane r: MaxOf(rows[r]).
  template <int kRows>
  [[gnu::always_inline]] static F MaxOfEach(const F (&rows)[kRows]) {
    float lanes[16] = {};
    for (int r = 0; r < kRows; ++r) lanes[r] = MaxOf(rows[r]);
    return Load(lanes);
  }

  // 2^x for x < 127 by a polynomial of degree 5 on [-1/2, 1/2], exact at 0;
  // relative error 1.7e-7; 0 below 2^-126.
  template <int kDegree>
  [[gnu::always_inline]] static F Exp2(F x) {
    static_assert(kDegree == 5);
    return {Exp2Of(x.a), Exp2Of(x.b)};
  }
  [[gnu::always_inline]] static __m256 Exp2Of(__m256 x) {
    const __m256 least = _mm256_set1_ps(-126.0f);
    const __m256 clamped = _mm256_max_ps(x, least);
    const __m256 whole =
        _mm256_round_ps(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 part = _mm256_sub_ps(clamped, whole);
    __m256 y = _mm256_set1_ps(0x1.5bba22p-10f);
    constexpr float kCoefficients[] = {0x1.3cea92p-7f, 0x1.c6b754p-5f,
                                       0x1.ebf9bcp-3f, 0x1.62e42ap-1f, 1.0f};
    for (const float c : kCoefficients) {
      y = _mm256_fmadd_ps(y, part, _mm256_set1_ps(c));
    }
    const __m256i scaled =
        _mm256_add_epi32(_mm256_castps_si256(y),
                         _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23));
    return _mm256_and_ps(_mm256_castsi256_ps(scaled),
                         _mm256_cmp_ps(x, least, _CMP_GE_OQ));
  }

  // Writes those of scores[0, 16) that are `least` or more to kept, and base +
  // their place to indices; returns how many. Writes up to 16 of each.
  [[gnu::always_inline]] static int AppendFrom(const float* scores, float least,
                                               int32_t base, float* kept,
                                               int32_t* indices) {
    const int count = AppendEight(scores, least, base, kept, indices);
    return count + AppendEight(scores + 8, least, base + 8, kept + count,
                               indices + count);
  }
  [[gnu::always_inline]] static int AppendEight(const float* scores,
                                                float least, int32_t base,
                                                float* kept, int32_t* indices) {
    const __m256 of_scores = _mm256_loadu_ps(scores);
    const int mask = _mm256_movemask_ps(
        _mm256_cmp_ps(of_scores, _mm256_set1_ps(least), _CMP_GE_OQ));
    const __m256i places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(
        reinterpret_cast<const __m128i*>(kPlacesOf.bits[mask])));
    _mm256_storeu_ps(kept, _mm256_permutevar8x32_ps(of_scores, places));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices),
                        _mm256_add_epi32(places, _mm256_set1_epi32(base)));
    return __builtin_popcount(static_cast<unsigned>(mask));
  }

  // Lane t of to[i] = from[t * stride + i], for `count` words i, 8 or 16.
  [[gnu::always_inline]] static void Transpose16(const float* from, int stride,
                                                 int count, F (&to)[16]) {
    for (int i = 0; i < count; i += 8) {
      __m256 low[8], high[8];
      Transpose8(from + i, stride, low);
      Transpose8(from + 8 * stride + i, stride, high);
      for (int j = 0; j < 8; ++j) to[i + j] = {low[j], high[j]};
    }
  }
  [[gnu::always_inline]] static void Transpose8(const float* from, int stride,
                                                __m256 (&to)[8]) {
    __m256 a[8], b[8];
    for (int t = 0; t < 8; ++t) a[t] = _mm256_loadu_ps(from + t * stride);
    for (int t = 0; t < 8; t += 2) {
      b[t] = _mm256_unpacklo_ps(a[t], a[t + 1]);
      b[t + 1] = _mm256_unpackhi_ps(a[t], a[t + 1]);
    }
    for (int t = 0; t < 8; t += 4) {
      for (int j = 0; j < 2; ++j) {
        a[t + 2 * j] = _mm256_shuffle_ps(b[t + j], b[t + 2 + j], 0x44);
        a[t + 2 * j + 1] = _mm256_shuffle_ps(b[t + j], b[t + 2 + j], 0xee);
      }
    }
    for (int i = 0; i < 4; ++i) {
      to[i] = _mm256_permute2f128_ps(a[i], a[4 + i], 0x20);
      to[4 + i] = _mm256_permute2f128_ps(a[i], a[4 + i], 0x31);
    }
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_LANES_AVX2_H_
