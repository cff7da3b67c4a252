// Scores by AMX: keys as stored are the left factor, the queries the right one.
// Tile loads that miss the first cache level stall, so keys are copied there on
// their way, as many bytes for each product as it takes in, in the order in
// which they lie.
//
// Against scores_by_key.h, by a driver of the kernels that is not kept (a core
// with AMX; GB/s of keys of 64, 128 and 256 elements from the caches): 38, 54
// and 48 in place of 20, 24 and 23 for four rows, 37 and 48 in place of 5 and 6
// for 16. From memory, 128 keys of Select: 1.16 and 2.33 us in place of 1.28
// and 2.75. Fetched into the first level too, 4 KiB ahead: 1.23 and 2.41, into
// that alone 1.42 and 2.9. Without the copy 13.7 GB/s in place of 18.4 at 128
// elements; with all of 16 keys copied at once 11.8 in place of 14.8 at 256.
// The first tile after 0.2 ms without any takes 3 us. Included by kernel files
// that are compiled for AMX.
#ifndef WINNOW_BACKEND_CPU_SELECT_SCORES_BY_TILE_H_
#define WINNOW_BACKEND_CPU_SELECT_SCORES_BY_TILE_H_

#include <initializer_list>

#include "backend/cpu/attend/attend_unit.h"
#include "backend/cpu/isa/amx_tiles.h"
#include "backend/cpu/isa/lanes_avx512.h"
#include "backend/cpu/isa/prefetch_beside.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Tiles of a unit's rows: 0 sums of scores [16 keys, rows], 1 keys or words of
// V, 2, 5, 6 and 7 queries [16 words, rows], 3 weights [rows, 16 pairs of
// keys], 4 values [rows, 16 columns].
[[gnu::always_inline]] inline TileConfig UnitTiles(int num_rows) {
  TileConfig config;
  for (const int tile : {0, 2, 5, 6, 7}) {
    config.row_bytes[tile] = static_cast<uint16_t>(num_rows * 4);
  }
  config.num_rows[3] = config.num_rows[4] = static_cast<uint8_t>(num_rows);
  return config;
}

// kRows of a tile of sums: as many as fit a vector with four keys, or 16.
// kBoth: k_dim is a multiple of 64, so that each step has both of its tiles.
template <int kRows, bool kBoth>
class ScoresByTile {
 public:
  ScoresByTile(const TileKeys& keys, const UnitRows& rows)
      : keys_(keys),
        rows_(rows),
        key_bytes_(keys.k_dim * 2),
        half_bytes_(kHalfTokens * key_bytes_),
        num_steps_((key_bytes_ + kStepBytes - 1) / kStepBytes),
        copies_(reinterpret_cast<std::byte*>(rows.transposed_k)) {
    for (int key = keys.begin / kHalfTokens * kHalfTokens; key < keys.end;
         key += kHalfTokens) {
      if (ReadsHalf(keys, key)) halves_[num_halves_++] = key / kHalfTokens;
    }
  }

  [[gnu::always_inline]] void Run() {
    for (int step = 0; step < num_steps_; ++step) CopyPart(0, step);
    FinishStores();
    LoadFirstQueries();
    for (int i = 0; i < num_halves_; ++i) {
      FinishStores();
      _tile_zero(0);
      for (int step = 0; step < num_steps_; ++step) {
        Multiply(i, step);
        if (step + 1 == num_steps_) {
          _tile_stored(0, sums_[i % 2], kRows * 4);
          FinishStores();
        }
        if (i + 1 < num_halves_) CopyPart(i + 1, step);
      }
      // Those of this half are not there yet.
      if (i > 0) StoreScores(i - 1);
    }
    StoreScores(num_halves_ - 1);
  }

 private:
  // Of a key, what a step multiplies: two tiles of 16 keys. It copies as many
  // bytes of the next 16.
  static constexpr int kStepBytes = 2 * kTileRowBytes;
  static constexpr int kPartBytes = kHalfTokens * kStepBytes;

  // Of the half with number i among those that are read.
  std::byte* CopyOf(int i) const { return copies_ + i % 2 * half_bytes_; }

  // Copies what a step takes of a half, and fetches what stands ahead of it.
  [[gnu::always_inline]] void CopyPart(int i, int step) {
    const int half = halves_[i];
    const int begin = step * kPartBytes;
    const int num_bytes =
        half_bytes_ - begin < kPartBytes ? half_bytes_ - begin : kPartBytes;
    const std::byte* from = keys_.k[half] + begin;
    const std::byte* far =
        keys_.ahead.far == nullptr ? from : keys_.ahead.far[i] + begin;
    std::byte* to = CopyOf(i) + begin;
    for (int at = 0; at < num_bytes; at += 64) {
      PrefetchFar(far + at);
      _mm512_storeu_si512(to + at, _mm512_loadu_si512(from + at));
    }
  }

  const std::byte* QueriesOf(int step) const {
    return static_cast<const std::byte*>(rows_.tiled_q) +
           step * kStepBytes * kUnitRows;
  }
  bool HasBothTiles(int step) const {
    return kBoth || (step + 1) * kStepBytes <= key_bytes_;
  }

  // Those of up to two steps stay in tiles 2, 5, 6 and 7.
  [[gnu::always_inline]] void LoadFirstQueries() const {
    _tile_loadd(2, QueriesOf(0), kTileRowBytes);
    if (HasBothTiles(0)) {
      _tile_loadd(5, QueriesOf(0) + kTileBytes, kTileRowBytes);
    }
    if (num_steps_ == 2) LoadQueries(1);
  }
  [[gnu::always_inline]] void LoadQueries(int step) const {
    _tile_loadd(6, QueriesOf(step), kTileRowBytes);
    if (!HasBothTiles(step)) return;
    _tile_loadd(7, QueriesOf(step) + kTileBytes, kTileRowBytes);
  }

  // Adds the products of a step.
  [[gnu::always_inline]] void Multiply(int i, int step) const {
    const std::byte* k = CopyOf(i) + step * kStepBytes;
    _tile_loadd(1, k, key_bytes_);
    if (step == 0) {
      _tile_dpbf16ps(0, 1, 2);
      if (!HasBothTiles(step)) return;
      _tile_loadd(1, k + kTileRowBytes, key_bytes_);
      _tile_dpbf16ps(0, 1, 5);
      return;
    }
    if (num_steps_ > 2) LoadQueries(step);
    _tile_dpbf16ps(0, 1, 6);
    if (!HasBothTiles(step)) return;
    _tile_loadd(1, k + kTileRowBytes, key_bytes_);
    _tile_dpbf16ps(0, 1, 7);
  }

  [[gnu::always_inline]] void StoreScores(int i) {
    __m512 of_rows[kRows];
    if constexpr (kRows == 4) {
      TransposeFour(sums_[i % 2], of_rows);
    } else {
      Avx512Lanes::Transpose16(sums_[i % 2], kRows, 16, of_rows);
    }
    for (int row = 0; row < rows_.num_rows; ++row) {
      _mm512_storeu_ps(
          rows_.scores + row * rows_.scores_stride + halves_[i] * kHalfTokens,
          of_rows[row]);
    }
  }

  // from: [16, 4].
  [[gnu::always_inline]] static void TransposeFour(const float* from,
                                                   __m512 (&to)[4]) {
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28,  //
                                            1, 5, 9, 13, 17, 21, 25, 29);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
    __m512 keys[4];
    for (int i = 0; i < 4; ++i) keys[i] = _mm512_load_ps(from + 16 * i);
    const auto halves_of = [&](const __m512i& order, __m512* rows) {
      const __m512 low = _mm512_permutex2var_ps(keys[0], order, keys[1]);
      const __m512 high = _mm512_permutex2var_ps(keys[2], order, keys[3]);
      rows[0] = _mm512_shuffle_f32x4(low, high, 0x44);
      rows[1] = _mm512_shuffle_f32x4(low, high, 0xee);
    };
    halves_of(first, to);
    halves_of(second, to + 2);
  }

  const TileKeys& keys_;
  const UnitRows& rows_;
  const int key_bytes_;
  const int half_bytes_;
  const int num_steps_;      // of a key
  int halves_[kTileHalves];  // that are read
  int num_halves_ = 0;
  std::byte* const copies_;  // of two halves
  // [key, row] of two halves; of rows that are none, anything.
  alignas(64) float sums_[2][kHalfTokens * kRows];
};

// scores [row, key] of all rows, of tiled_q, against the tile's keys. REQUIRES:
// UnitTiles is loaded, a key is read, and k_dim is a multiple of 32.
[[gnu::always_inline]] inline void MultiplyKeyTiles(const TileKeys& keys,
                                                    const UnitRows& rows) {
  const bool both = keys.k_dim % 64 == 0;
  if (rows.num_rows <= 4) {
    both ? ScoresByTile<4, true>(keys, rows).Run()
         : ScoresByTile<4, false>(keys, rows).Run();
  } else {
    both ? ScoresByTile<16, true>(keys, rows).Run()
         : ScoresByTile<16, false>(keys, rows).Run();
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SCORES_BY_TILE_H_
