// Scores by AMX: keys as stored are the left factor, the queries the right one.
// Tile loads that miss the first cache level stall, so keys are copied there on
// their way, as many bytes for each product as it takes in, in the order in
// which they lie.
//
// Against scores_by_key.h (a core with AMX; GB/s of keys of 64, 128 and 256
// elements from the caches): 38, 54 and 48 in place of 20, 24 and 23 for four
// rows, 37 and 48 in place of 5 and 6 for 16. From memory, 128 keys of Select:
// 1.16 and 2.33 us in place of 1.28 and 2.75. Fetched into the first level too,
// 4 KiB ahead: 1.23 and 2.41, into that alone 1.42 and 2.9. Without the copy
// 13.7 GB/s in place of 18.4 at 128 elements; with all of 16 keys copied at
// once 11.8 in place of 14.8 at 256. The first tile after 0.2 ms without any
// takes 3 us.
#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/fetch_beside.h"
#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/read_kernels.h"

namespace winnow {
namespace {

// Of a key, what a step multiplies: two tiles of 16 keys. It copies as many
// bytes of the next 16.
constexpr int kStepBytes = 2 * kTileRowBytes;
constexpr int kPartBytes = kHalfTokens * kStepBytes;

// The rows of a tile of sums: as many as fit a vector with four keys, or 16.
template <int kRows>
class ScoresByTile {
 public:
  ScoresByTile(const TileKeys& keys, const UnitRows& rows)
      : keys_(keys),
        rows_(rows),
        key_bytes_(keys.k_dim * 2),
        half_bytes_(kHalfTokens * key_bytes_),
        num_steps_((key_bytes_ + kStepBytes - 1) / kStepBytes),
        end_half_((keys.end + kHalfTokens - 1) / kHalfTokens),
        copies_(reinterpret_cast<std::byte*>(rows.transposed_k)) {}

  [[gnu::always_inline]] void Run() {
    for (int step = 0; step < num_steps_; ++step) CopyPart(0, step);
    for (int half = 0; half < end_half_; ++half) {
      FinishStores();
      _tile_zero(0);
      for (int step = 0; step < num_steps_; ++step) {
        Multiply(half, step * kStepBytes);
        if (step + 1 == num_steps_) {
          _tile_stored(0, sums_[half % 2], kRows * 4);
          FinishStores();
        }
        if (half + 1 < end_half_) CopyPart(half + 1, step);
      }
      // Those of this half are not there yet.
      if (half > 0) StoreScores(half - 1);
    }
    StoreScores(end_half_ - 1);
  }

 private:
  std::byte* CopyOf(int half) const { return copies_ + half % 2 * half_bytes_; }

  // Copies what a step takes of a half, and fetches what stands ahead of it.
  [[gnu::always_inline]] void CopyPart(int half, int step) {
    const int begin = step * kPartBytes;
    const int num_bytes =
        half_bytes_ - begin < kPartBytes ? half_bytes_ - begin : kPartBytes;
    const std::byte* from = keys_.k[half] + begin;
    const std::byte* far = keys_.ahead_k[half].far;
    far = far == nullptr ? from : far + begin;
    std::byte* to = CopyOf(half) + begin;
    for (int i = 0; i < num_bytes; i += 64) {
      FetchFar(far + i);
      _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
    }
  }

  // Adds the products of a step, `at` bytes into each key.
  [[gnu::always_inline]] void Multiply(int half, int at) {
    const std::byte* k = CopyOf(half) + at;
    const auto* q = static_cast<const std::byte*>(rows_.q) + at * kUnitRows;
    _tile_loadd(1, k, key_bytes_);
    _tile_loadd(2, q, kTileRowBytes);
    _tile_dpbf16ps(0, 1, 2);
    if (key_bytes_ - at < kStepBytes) return;
    _tile_loadd(3, k + kTileRowBytes, key_bytes_);
    _tile_loadd(4, q + kUnitRows * kTileRowBytes, kTileRowBytes);
    _tile_dpbf16ps(0, 3, 4);
  }

  [[gnu::always_inline]] void StoreScores(int half) {
    __m512 of_rows[kRows];
    if constexpr (kRows == 4) {
      TransposeFour(sums_[half % 2], of_rows);
    } else {
      Avx512Lanes::Transpose16(sums_[half % 2], kRows, 16, of_rows);
    }
    for (int row = 0; row < rows_.num_rows; ++row) {
      _mm512_storeu_ps(rows_.scores + row * kTileKeys + half * kHalfTokens,
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
  const int num_steps_;  // of a key
  const int end_half_;
  std::byte* const copies_;  // of two halves
  // [key, row] of two halves; of rows that are none, anything.
  alignas(64) float sums_[2][kHalfTokens * kRows];
};

}  // namespace

void ScoreTileAmx(const TileKeys& keys, const UnitRows& rows) {
  TileConfig config;
  const auto sum_bytes = static_cast<uint16_t>(rows.num_rows * 4);
  for (int tile = 0; tile <= 4; tile += 2) config.row_bytes[tile] = sum_bytes;
  FinishStores();
  _tile_loadconfig(&config);
  if (rows.num_rows <= 4) {
    ScoresByTile<4>(keys, rows).Run();
  } else {
    ScoresByTile<16>(keys, rows).Run();
  }
  _tile_release();
  FinishStores();
}

}  // namespace winnow
