// A unit's scores of bfloat16 where K stays as it is stored: dimensions are the
// lanes of a product, and a tree of shuffles sums them for sixteen keys at a
// time. Included by kernel files that are compiled for AVX512_BF16.
//
// Against keys as lanes, for which K was transposed into scratch first: 64
// shuffles, as many stores and loads for 16 words of 16 keys, and a phase of
// its own, went; 30 shuffles a row and 16 keys came, beside the products. (One
// Zen 4 core, 4 rows, K and V in its caches: 24.5 to 27.6 GB/s at head_dim 64,
// 26 to 31.5 at 128.)
//
// With AMX: scores_by_tile.h, and values by tiles too, unit_amx.cc. (Its scores
// before this file's values: nothing from memory.)
#ifndef WINNOW_BACKEND_CPU_SCORES_BY_KEY_H_
#define WINNOW_BACKEND_CPU_SCORES_BY_KEY_H_

#include <immintrin.h>

#include "backend/cpu/fetch_beside.h"
#include "backend/cpu/read_kernels.h"

namespace winnow {

template <FarLevel kLevel>
class ScoresByKey {
 public:
  // scores [row, key] of all rows against the 16 keys from `key` on, as
  // PageScores; fetches what stands ahead of half `number`.
  [[gnu::always_inline]] static void Half(const TileKeys& keys,
                                          const UnitRows& rows, int key,
                                          int number) {
    switch (keys.k_dim) {
      case 64:
        return AllRows<2>(keys, rows, key, number);
      case 128:
        return AllRows<4>(keys, rows, key, number);
      case 256:
        return AllRows<8>(keys, rows, key, number);
      default:
        return AllRows<0>(keys, rows, key, number);
    }
  }

 private:
  // How many keys a row takes in before their lanes are summed.
  static constexpr int kKeys = 4;
  static constexpr int kGroups = kHalfTokens / kKeys;
  static constexpr int kLineBytes = 64;
  // Keys of a half, as they lie.
  struct HalfKeys {
    int key = 0;  // the first
    const std::byte* k = nullptr;
    int64_t row_bytes = 0;
    FetchBeside<kLevel> fetch;
  };

  // kVectors: of a key, 32 elements each; 0: as many as k_dim says. The first
  // rows find the keys in memory, and fetch; the others find them in the cache.
  template <int kVectors>
  [[gnu::always_inline]] static void AllRows(const TileKeys& keys,
                                             const UnitRows& rows, int key,
                                             int number) {
    const int64_t row_bytes = int64_t{keys.k_stride} * 2;
    const std::byte* k = keys.k[key / kHalfTokens];
    const HalfKeys half = {key, k, row_bytes, {keys.ahead, number, k}};
    int row = 0;
    if (rows.num_rows >= 4) {
      SomeRows<kVectors, 4, true>(keys, rows, half, row);
      row = 4;
    } else if (rows.num_rows >= 2) {
      SomeRows<kVectors, 2, true>(keys, rows, half, row);
      row = 2;
    } else {
      SomeRows<kVectors, 1, true>(keys, rows, half, row);
      row = 1;
    }
    for (; row + 4 <= rows.num_rows; row += 4) {
      SomeRows<kVectors, 4, false>(keys, rows, half, row);
    }
    for (; row + 2 <= rows.num_rows; row += 2) {
      SomeRows<kVectors, 2, false>(keys, rows, half, row);
    }
    if (row < rows.num_rows) {
      SomeRows<kVectors, 1, false>(keys, rows, half, row);
    }
  }

  template <int kVectors, int kRows, bool kFetches>
  static void SomeRows(const TileKeys& keys, const UnitRows& rows,
                       const HalfKeys& half, int row) {
    const int num_words = keys.k_dim / 2;
    const auto* q = static_cast<const float*>(rows.q) + row * num_words;
    __m512 of_keys[kRows][kGroups];
#pragma GCC unroll 4
    for (int group = 0; group < kGroups; ++group) {
      __m512 sums[kRows][kKeys];
      MultiplyKeys<kVectors, kFetches>(half, group * kKeys, q, num_words, sums);
      for (int r = 0; r < kRows; ++r) of_keys[r][group] = FoldLanes(sums[r]);
    }
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_ps(rows.scores + (row + r) * kTileKeys + half.key,
                       FoldQuarters(of_keys[r]));
    }
  }

  // sums[row][key], of the keys from `first` on: lane i sums words i, i + 16,
  // ... in ascending order.
  template <int kVectors, bool kFetches, int kRows>
  [[gnu::always_inline]] static void MultiplyKeys(
      const HalfKeys& half, int first, const float* q, int num_words,
      __m512 (&sums)[kRows][kKeys]) {
    for (auto& of_row : sums) {
      for (__m512& sum : of_row) sum = _mm512_setzero_ps();
    }
    // Lines are fetched in the order in which they lie, as a pattern that the
    // hardware knows.
    [[maybe_unused]] int64_t line = first * half.row_bytes;
    const auto add = [&](int word, const auto& load) {
      __m512bh of_q[kRows];
      for (int r = 0; r < kRows; ++r) of_q[r] = load(q + r * num_words + word);
      for (int i = 0; i < kKeys; ++i) {
        const int64_t at = (first + i) * half.row_bytes + word * 4;
        if constexpr (kFetches) {
          half.fetch.Line(line);
          line += kLineBytes;
        }
        const __m512bh of_k = load(half.k + at);
        for (int r = 0; r < kRows; ++r) {
          sums[r][i] = _mm512_dpbf16_ps(sums[r][i], of_k, of_q[r]);
        }
      }
    };
    const auto load_all = [](const void* from) {
      return (__m512bh)_mm512_loadu_si512(from);
    };
    if constexpr (kVectors != 0) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) add(16 * v, load_all);
    } else {
      int word = 0;
      for (; word + 16 <= num_words; word += 16) add(word, load_all);
      // The number of words is a multiple of eight.
      if (word < num_words) {
        add(word, [](const void* from) {
          return (__m512bh)_mm512_maskz_loadu_epi32(0xff, from);
        });
      }
    }
  }

  // Lane i of each quarter of the result: the sum of key i's lanes there.
  [[gnu::always_inline]] static __m512 FoldLanes(const __m512 (&of)[kKeys]) {
    const __m512 low = _mm512_add_ps(_mm512_unpacklo_ps(of[0], of[1]),
                                     _mm512_unpackhi_ps(of[0], of[1]));
    const __m512 high = _mm512_add_ps(_mm512_unpacklo_ps(of[2], of[3]),
                                      _mm512_unpackhi_ps(of[2], of[3]));
    const __m512d low_pairs = _mm512_castps_pd(low);
    const __m512d high_pairs = _mm512_castps_pd(high);
    return _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(low_pairs, high_pairs)),
        _mm512_castpd_ps(_mm512_unpackhi_pd(low_pairs, high_pairs)));
  }

  // Quarter j of the result: the sum of all quarters of vector j.
  [[gnu::always_inline]] static __m512 FoldQuarters(const __m512 (&of)[4]) {
    const auto fold = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88),
                           _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    return fold(fold(of[0], of[1]), fold(of[2], of[3]));
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SCORES_BY_KEY_H_
