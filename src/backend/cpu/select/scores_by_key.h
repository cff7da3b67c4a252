// A unit's scores where K, of 16-bit or 8-bit numbers, stays as it is stored:
// dimensions are the lanes of a product, and a tree of shuffles sums them for
// sixteen keys at a time. Written once over Products: registers of words of K
// and q, and what can be done with them; where these have LoadScales, a key has
// a scale behind its numbers, which its scores are multiplied with.
//
// Against keys as lanes, for which K was transposed into scratch first: 64
// shuffles, as many stores and loads for 16 words of 16 keys, and a phase of
// its own, went; 30 shuffles a row and 16 keys came, beside the products. (One
// Zen 4 core, 4 rows, K and V in its caches: 24.5 to 27.6 GB/s at head_dim 64,
// 26 to 31.5 at 128.)
//
// Four keys' words transposed within registers, once for all rows, to meet
// queries that stand there four times, take fewer shuffles. By trials without a
// record, on a Zen 4: faster from the caches; from memory Select of `quest` was
// slower so, that of others no faster.
//
// With AMX: scores_by_tile.h, and values by tiles too, unit_amx.cc. (Its scores
// before this file's values: nothing from memory.)
#ifndef WINNOW_BACKEND_CPU_SELECT_SCORES_BY_KEY_H_
#define WINNOW_BACKEND_CPU_SELECT_SCORES_BY_KEY_H_

#include "backend/cpu/isa/prefetch_beside.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

template <class Products, CacheLevel kLevel>
class ScoresByKey {
 public:
  // scores [row, key] of all rows against the 16 keys from `key` on, as
  // PageScores; fetches what stands ahead of half `number`.
  [[gnu::always_inline]] static void Half(const TileKeys& keys,
                                          const UnitRows& rows, int key,
                                          int number) {
    // Unrolled, what does not fit the registers goes to memory and back.
    if constexpr (!Products::kUnrolls)
      return AllRows<0>(keys, rows, key, number);
    constexpr int kElements = 2 * Products::kWords;
    switch (keys.k_dim) {
      case 64:
        return AllRows<64 / kElements>(keys, rows, key, number);
      case 128:
        return AllRows<128 / kElements>(keys, rows, key, number);
      case 256:
        return AllRows<256 / kElements>(keys, rows, key, number);
      default:
        return AllRows<0>(keys, rows, key, number);
    }
  }

 private:
  using Words = typename Products::Words;
  using Sums = typename Products::Sums;
  // How many keys' lanes are summed together, and how many of them are taken
  // in side by side.
  static constexpr int kGroupKeys = 4;
  static constexpr int kGroups = kHalfTokens / kGroupKeys;
  static constexpr int kKeys = Products::kKeys;
  static constexpr int kMaxRows = Products::kMaxRows;
  static constexpr int kLineBytes = 64;
  static constexpr int kWordBytes = 2 * Products::kElementBytes;
  static constexpr int kLineWords = kLineBytes / kWordBytes;
  // Keys of a half, as they lie.
  struct HalfKeys {
    int key = 0;  // the first
    const std::byte* k = nullptr;
    int64_t row_bytes = 0;
    PrefetchBeside<kLevel> prefetch;
  };

  // kVectors: of a key, registers of words; 0: as many as k_dim says. The first
  // rows find the keys in memory, and fetch; the others find them in the cache.
  template <int kVectors>
  [[gnu::always_inline]] static void AllRows(const TileKeys& keys,
                                             const UnitRows& rows, int key,
                                             int number) {
    const int64_t row_bytes = int64_t{keys.k_stride} * Products::kElementBytes;
    const std::byte* k = keys.k[key / kHalfTokens];
    const HalfKeys half = {key, k, row_bytes, {keys.ahead, number, k}};
    int row = 0;
    if (rows.num_rows >= kMaxRows) {
      SomeRows<kVectors, kMaxRows, true>(keys, rows, half, row);
      row = kMaxRows;
    } else if (rows.num_rows >= 2) {
      SomeRows<kVectors, 2, true>(keys, rows, half, row);
      row = 2;
    } else {
      SomeRows<kVectors, 1, true>(keys, rows, half, row);
      row = 1;
    }
    for (; row + kMaxRows <= rows.num_rows; row += kMaxRows) {
      SomeRows<kVectors, kMaxRows, false>(keys, rows, half, row);
    }
    for (; row + 2 <= rows.num_rows; row += 2) {
      SomeRows<kVectors, 2, false>(keys, rows, half, row);
    }
    if (row < rows.num_rows) {
      SomeRows<kVectors, 1, false>(keys, rows, half, row);
    }
  }

  template <int kVectors, int kRows, bool kPrefetches>
  static void SomeRows(const TileKeys& keys, const UnitRows& rows,
                       const HalfKeys& half, int row) {
    const int num_words = keys.k_dim / 2;
    const auto* q = static_cast<const float*>(rows.q) +
                    row * num_words * Products::kQueryFloats;
    typename Products::Four of_keys[kRows][kGroups];
#pragma GCC unroll 4
    for (int group = 0; group < kGroups; ++group) {
      Sums pairs[kRows][kGroupKeys / 2];
#pragma GCC unroll 2
      for (int key = 0; key < kGroupKeys; key += kKeys) {
        Sums sums[kRows][kKeys];
        MultiplyKeys<kVectors, kPrefetches>(half, group * kGroupKeys + key, q,
                                            num_words, sums);
        for (int r = 0; r < kRows; ++r) {
          for (int i = 0; i < kKeys; i += 2) {
            pairs[r][(key + i) / 2] =
                Products::AddLanes(sums[r][i], sums[r][i + 1]);
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        of_keys[r][group] = Products::AddPairs(pairs[r][0], pairs[r][1]);
      }
    }
    float* scores = rows.scores + row * rows.scores_stride + half.key;
    if constexpr (requires { Products::LoadScales(half.k, half.row_bytes); }) {
      const auto scales =
          Products::LoadScales(half.k + num_words * kWordBytes, half.row_bytes);
      for (int r = 0; r < kRows; ++r) {
        Products::Store(scores + r * rows.scores_stride, of_keys[r], scales);
      }
    } else {
      for (int r = 0; r < kRows; ++r) {
        Products::Store(scores + r * rows.scores_stride, of_keys[r]);
      }
    }
  }

  // sums[row][key], of the keys from `first` on: each lane sums
  // every n-th word, of float16 every n-th number, in ascending order, where n
  // are a register's lanes.
  template <int kVectors, bool kPrefetches, int kRows>
  [[gnu::always_inline]] static void MultiplyKeys(const HalfKeys& half,
                                                  int first, const float* q,
                                                  int num_words,
                                                  Sums (&sums)[kRows][kKeys]) {
    for (auto& of_row : sums) {
      for (Sums& sum : of_row) sum = Products::Zero();
    }
    // Lines are fetched in the order in which they lie, as a pattern that the
    // hardware knows.
    [[maybe_unused]] int64_t line = first * half.row_bytes;
    const auto add = [&]<int kCount>(int word) {
      Words of_k[kKeys];
#pragma GCC unroll 4
      for (int i = 0; i < kKeys; ++i) {
        const int64_t at = (first + i) * half.row_bytes + word * kWordBytes;
        if (kPrefetches && word % kLineWords == 0) {
          half.prefetch.Line(line);
          line += kLineBytes;
        }
        of_k[i] = Products::template LoadKey<kCount>(half.k + at);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Words of_q = Products::template LoadQuery<kCount>(
            q + r * num_words * Products::kQueryFloats, num_words, word);
#pragma GCC unroll 4
        for (int i = 0; i < kKeys; ++i) {
          sums[r][i] = Products::MultiplyAdd(of_k[i], of_q, sums[r][i]);
        }
      }
    };
    constexpr int kWords = Products::kWords;
    if constexpr (kVectors != 0) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        add.template operator()<kWords>(kWords * v);
      }
    } else {
      int word = 0;
      for (; word + kWords <= num_words; word += kWords) {
        add.template operator()<kWords>(word);
      }
      // The number of words is a multiple of eight, or of kWords above 16.
      if constexpr (kWords == 16) {
        if (word < num_words) add.template operator()<8>(word);
      }
    }
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SCORES_BY_KEY_H_
