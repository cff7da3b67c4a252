// Scores of rows of float8_e4m3 as they are stored: what Select makes use of.
// Compiled for AVX512_BF16 and AVX512_VBMI.
//
// Numbers are looked up as bfloat16: those of either sign that a row has are
// 128, whose first bytes are one table of a byte permutation, and whose second
// ones are another. Scales are powers of two: a score is multiplied by its
// row's in place of each number.
#include "backend/cpu/attend/attend_unit.h"
#include "backend/cpu/isa/bfloat16_words.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {
namespace {

// By a magnitude's bits of E4M3, the bytes of the same number of bfloat16.
struct Float8Bytes {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
};

constexpr Float8Bytes MakeFloat8Bytes() {
  Float8Bytes bytes = {};
  for (int i = 0; i < 128; ++i) {
    // Below the least normal number: multiples of 2^-9.
    const float number = i < 8 ? static_cast<float>(i) * 0x1p-9f : 0;
    const uint32_t bits = i < 8 ? __builtin_bit_cast(uint32_t, number) >> 16
                                : static_cast<uint32_t>((120 << 7) + (i << 4));
    bytes.low[i] = static_cast<uint8_t>(bits & 0xff);
    bytes.high[i] = static_cast<uint8_t>(bits >> 8);
  }
  return bytes;
}

constexpr Float8Bytes kFloat8Bytes = MakeFloat8Bytes();

// Of ScoresByKey. REQUIRES: k_dim is a multiple of 64; a row's scale is behind
// its numbers.
struct Float8Products {
  struct Words {
    __m512bh first, second;
  };
  using Sums = PairProducts::Sums;
  using Four = PairProducts::Four;
  static constexpr int kWords = 32;
  static constexpr int kMaxRows = 4;
  static constexpr int kKeys = 2;  // more, and tables leave the registers
  static constexpr int kQueryFloats = 1;
  static constexpr int kElementBytes = 1;
  static constexpr bool kUnrolls = true;

  [[gnu::always_inline]] static Sums Zero() { return PairProducts::Zero(); }
  template <int kCount>
  [[gnu::always_inline]] static Words LoadKey(const std::byte* k) {
    static_assert(kCount == kWords);
    const auto table = [](const uint8_t* from) {
      return _mm512_load_si512(from);
    };
    // So that unpacking, which takes eight bytes of each quarter, keeps the
    // order.
    const __m512i bits = _mm512_permutexvar_epi64(
        _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), _mm512_loadu_si512(k));
    const __m512i low = _mm512_permutex2var_epi8(table(kFloat8Bytes.low), bits,
                                                 table(kFloat8Bytes.low + 64));
    const __m512i magnitude = _mm512_permutex2var_epi8(
        table(kFloat8Bytes.high), bits, table(kFloat8Bytes.high + 64));
    constexpr int kOrAnd = 0xf8;  // magnitude | (bits & the sign)
    const __m512i high = _mm512_ternarylogic_epi64(
        magnitude, bits, _mm512_set1_epi8(static_cast<char>(0x80)), kOrAnd);
    return {(__m512bh)_mm512_unpacklo_epi8(low, high),
            (__m512bh)_mm512_unpackhi_epi8(low, high)};
  }
  template <int kCount>
  [[gnu::always_inline]] static Words LoadQuery(const float* q, int num_words,
                                                int word) {
    constexpr int kHalf = PairProducts::kWords;
    return {PairProducts::LoadQuery<kHalf>(q, num_words, word),
            PairProducts::LoadQuery<kHalf>(q, num_words, word + kHalf)};
  }
  [[gnu::always_inline]] static Sums MultiplyAdd(const Words& k, const Words& q,
                                                 Sums sum) {
    return PairProducts::MultiplyAdd(
        k.second, q.second, PairProducts::MultiplyAdd(k.first, q.first, sum));
  }
  [[gnu::always_inline]] static Sums AddLanes(Sums first, Sums second) {
    return PairProducts::AddLanes(first, second);
  }
  [[gnu::always_inline]] static Four AddPairs(Sums first, Sums second) {
    return PairProducts::AddPairs(first, second);
  }
  // Of sixteen rows, the first one's at `scale`.
  [[gnu::always_inline]] static __m512 LoadScales(const std::byte* scale,
                                                  int64_t row_bytes) {
    const __m512i rows =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_ps(
        _mm512_mullo_epi32(rows,
                           _mm512_set1_epi32(static_cast<int>(row_bytes))),
        scale, 1);
  }
  [[gnu::always_inline]] static void Store(float* to, const Four (&of)[4],
                                           __m512 scales) {
    _mm512_storeu_ps(to, _mm512_mul_ps(Avx512Register::SumsOf(of), scales));
  }
};

template <CacheLevel kLevel>
struct Float8Words : BFloat16Words {
  static constexpr CacheLevel kFarLevel = kLevel;
  using StoredKeys = ScoresByKey<Float8Products, kLevel>;
};

}  // namespace

ScoreKernel Float8ScoreKernel(bool far_first) {
  return far_first ? UnitScores<Avx512Lanes, Float8Words<CacheLevel::kFirst>>
                   : UnitScores<Avx512Lanes, Float8Words<CacheLevel::kSecond>>;
}

}  // namespace winnow
