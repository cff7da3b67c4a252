// A unit's scores of bfloat16 where K stays as it is stored: dimensions are the
// lanes of a product, and a tree of shuffles sums them for sixteen keys at a
// time. Included by kernel files that are compiled for AVX512_BF16.
//
// Against keys as lanes, for which K was transposed into scratch first: 64
// shuffles, as many stores and loads for 16 words of 16 keys, and a phase of
// its own, went; 30 shuffles a row and 16 keys came, beside the products. (One
// Zen 4 core, 4 rows, K and V in its caches: 24.5 to 27.6 GB/s at head_dim 64,
// 26 to 31.5 at 128.)
#ifndef WINNOW_BACKEND_CPU_SCORES_BY_KEY_H_
#define WINNOW_BACKEND_CPU_SCORES_BY_KEY_H_

#include <immintrin.h>

#include "backend/cpu/fetch_cursor.h"
#include "backend/cpu/read_kernels.h"

namespace winnow {

class ScoresByKey {
 public:
  // scores [row, key] of all rows against the 16 keys from `key` on, as
  // UnitScores; fetches what stands in next_k for them.
  [[gnu::always_inline]] static void Half(const TileKeys& keys,
                                          const UnitRows& rows, int key) {
    switch (keys.k_dim) {
      case 64:
        return AllRows<2>(keys, rows, key);
      case 128:
        return AllRows<4>(keys, rows, key);
      case 256:
        return AllRows<8>(keys, rows, key);
      default:
        return AllRows<0>(keys, rows, key);
    }
  }

 private:
  // How many keys a row takes in before their lanes are summed.
  static constexpr int kKeys = 4;
  static constexpr int kGroups = kHalfTokens / kKeys;
  static constexpr int kRowStep = 2;

  // kVectors: of a key, 32 elements each; 0: as many as k_dim says.
  template <int kVectors>
  [[gnu::always_inline]] static void AllRows(const TileKeys& keys,
                                             const UnitRows& rows, int key) {
    const int num_passes = (rows.num_rows + kRowStep - 1) / kRowStep;
    FetchCursor fetch(keys.next_k + key / kHalfTokens, 1,
                      kHalfTokens * keys.k_stride * 2, num_passes * kGroups);
    int row = 0;
    for (; row + kRowStep <= rows.num_rows; row += kRowStep) {
      fetch = SomeRows<kVectors, kRowStep>(keys, rows, row, key, fetch);
    }
    if (row < rows.num_rows) {
      SomeRows<kVectors, 1>(keys, rows, row, key, fetch);
    }
  }

  // Steps `fetch` with each group of keys; returns it.
  template <int kVectors, int kRows>
  static FetchCursor SomeRows(const TileKeys& keys, const UnitRows& rows,
                              int row, int key, FetchCursor fetch) {
    const int num_words = keys.k_dim / 2;
    const auto* q = static_cast<const float*>(rows.q) + row * num_words;
    const int page = key / kTilePageTokens;
    const int64_t row_bytes = int64_t{keys.k_stride} * 2;
    const std::byte* k = keys.k[page] + key % kTilePageTokens * row_bytes;
    __m512 of_keys[kRows][kGroups];
#pragma GCC unroll 4
    for (int group = 0; group < kGroups; ++group) {
      fetch.Step();
      __m512 sums[kRows][kKeys];
      MultiplyKeys<kVectors>(k, row_bytes, q, num_words, sums);
      for (int r = 0; r < kRows; ++r) of_keys[r][group] = FoldLanes(sums[r]);
      k += kKeys * row_bytes;
    }
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_ps(rows.scores + (row + r) * kTileKeys + key,
                       FoldQuarters(of_keys[r]));
    }
    return fetch;
  }

  // sums[row][key]: lane i sums words i, i + 16, ... in ascending order.
  template <int kVectors, int kRows>
  [[gnu::always_inline]] static void MultiplyKeys(
      const std::byte* k, int64_t row_bytes, const float* q, int num_words,
      __m512 (&sums)[kRows][kKeys]) {
    for (auto& of_row : sums) {
      for (__m512& sum : of_row) sum = _mm512_setzero_ps();
    }
    const auto add = [&](int word, const auto& load) {
      __m512bh of_q[kRows];
      for (int r = 0; r < kRows; ++r) of_q[r] = load(q + r * num_words + word);
      for (int i = 0; i < kKeys; ++i) {
        const __m512bh of_k = load(k + i * row_bytes + word * 4);
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
