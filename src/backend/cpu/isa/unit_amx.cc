// The unit kernel on AMX tiles. Scores: scores_by_tile.h. For the values, V is
// laid out in scratch as pairs of keys, a page at a time while the tiles of the
// page before are multiplied: the weights as they stand are the left factor.
//
// Against attend_unit.h with scores_by_key.h, by `bench ops` in turn, two cores
// (2026-11-24-8ad5960-verbs-in-turn.json): dense decode at head_dim 64 and 128
// 0.72 to 0.74 and 0.80 of a plain read in place of 0.67 and 0.73. What lost,
// by a driver of the kernel alone that is not kept, as shares of a plain read:
// lines of V fetched beside the weights, 0.02 to 0.04; every other line alone,
// 0.09 and 0.07; none of K or none of V, 0.06 to 0.12; K and V into the first
// level too, 0.03 at 64. A half's sums stored after the next one's products,
// and K and V fetched in turns as they lie, changed nothing. Without softmax
// and products these fetches reach 0.85 and 0.94.
#include "backend/cpu/attend/attend_unit.h"
#include "backend/cpu/isa/amx_tiles.h"
#include "backend/cpu/isa/bfloat16_words.h"
#include "backend/cpu/isa/lanes_avx512.h"
#include "backend/cpu/isa/prefetch_beside.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/select/scores_by_tile.h"

namespace winnow {
namespace {

constexpr int kPagePairs = kTilePageTokens / 2;

// values [row, c] of all rows. REQUIRES: UnitTiles is loaded, a key is read,
// and v_dim is a multiple of 32.
class ValuesByTile {
 public:
  ValuesByTile(const TileKeys& keys, const UnitRows& rows)
      : keys_(keys),
        rows_(rows),
        row_bytes_(int64_t{keys.v_stride} * 2),
        num_tiles_(keys.v_dim / 16) {
    // The K of all halves is read before.
    int number = 0;
    for (int page = 0; page < kTilePages; ++page) {
      number += CountReadHalves(keys, page);
    }
    for (int half = 0; half < kTileHalves; ++half) {
      numbers_[half] = number;
      number += ReadsHalf(keys, half * kHalfTokens);
    }
  }

  [[gnu::always_inline]] void Run() {
    int before = -1;  // a page
    bool begins = true;
    for (int page = keys_.begin / kTilePageTokens;
         page * kTilePageTokens < keys_.end; ++page) {
      const uint32_t tokens = TokensOf(page);
      if (tokens == 0) continue;
      if (tokens == ~uint32_t{0}) {
        PackPage<true>(page, tokens, before, begins);
      } else {
        ClearOtherWeights(page, tokens);
        PackPage<false>(page, tokens, before, begins);
      }
      begins = before < 0;
      before = page;
    }
    for (int tile = 0; tile < num_tiles_; ++tile) {
      Multiply(before, tile, begins);
    }
    FinishStores();
    BFloat16Words::OrderColumns(rows_.values, rows_.num_rows * keys_.v_dim);
  }

 private:
  // Bit t: the row of V of the page's token t is read.
  uint32_t TokensOf(int page) const {
    const int first = page * kTilePageTokens;
    uint32_t tokens = ~uint32_t{0};
    if (keys_.begin > first) tokens <<= keys_.begin - first;
    if (keys_.end < first + kTilePageTokens) {
      tokens &= ~(~uint32_t{0} << (keys_.end - first));
    }
    return tokens;
  }

  // Weights of halves of which nothing is read: nothing has written them.
  void ClearOtherWeights(int page, uint32_t tokens) const {
    for (int half = 0; half < kPageHalves; ++half) {
      if ((tokens >> half * kHalfTokens & 0xffff) != 0) continue;
      for (int row = 0; row < rows_.num_rows; ++row) {
        BFloat16Words::StoreKeyWeights(
            rows_.weights + row * kTileKeys,
            page * kTilePageTokens + half * kHalfTokens, _mm512_setzero_ps());
      }
    }
  }

  // Words [v_dim / 16, 16 pairs of keys, 16 columns] of every other page.
  std::byte* PackedOf(int page) const {
    return reinterpret_cast<std::byte*>(rows_.transposed_k) +
           page % 2 * num_tiles_ * kTileBytes;
  }

  // Packs a page while the one before, if any, is multiplied.
  template <bool kWhole>
  [[gnu::always_inline]] void PackPage(int page, uint32_t tokens, int before,
                                       bool begins) const {
    int pair = 0;
    if (before >= 0) {
      for (int tile = 0; tile < num_tiles_; ++tile) {
        Multiply(before, tile, begins);
        const int end = (tile + 1) * kPagePairs / num_tiles_;
        for (; pair < end; ++pair) PackPair<kWhole>(page, pair, tokens);
      }
    }
    for (; pair < kPagePairs; ++pair) PackPair<kWhole>(page, pair, tokens);
    FinishStores();
  }

  // Two keys of the page, zeros where one is not read. A vector of columns
  // becomes rows of two tiles: fours of columns in turns, in one instruction
  // each.
  template <bool kWhole>
  [[gnu::always_inline]] void PackPair(int page, int pair,
                                       uint32_t tokens) const {
    const int half = (page * kTilePageTokens + 2 * pair) / kHalfTokens;
    const int64_t first = 2 * pair % kHalfTokens * row_bytes_;
    const std::byte* v = keys_.v[half] + first;
    const std::byte* far = keys_.ahead.far == nullptr
                               ? v
                               : keys_.ahead.far[numbers_[half]] + first;
    const auto all_where = [&](int token) {
      return static_cast<__mmask16>(-(tokens >> token & 1));
    };
    const __mmask16 has_first = all_where(2 * pair);
    const __mmask16 has_second = all_where(2 * pair + 1);
    std::byte* to = PackedOf(page) + pair * kTileRowBytes;
    for (int tile = 0; tile < num_tiles_; tile += 2) {
      const int at = tile * 32;
      PrefetchFar(far + at);
      PrefetchFar(far + row_bytes_ + at);
      const __m512i of_first =
          kWhole ? _mm512_loadu_si512(v + at)
                 : _mm512_maskz_loadu_epi32(has_first, v + at);
      const __m512i of_second =
          kWhole ? _mm512_loadu_si512(v + row_bytes_ + at)
                 : _mm512_maskz_loadu_epi32(has_second, v + row_bytes_ + at);
      _mm512_storeu_si512(to, _mm512_unpacklo_epi16(of_first, of_second));
      _mm512_storeu_si512(to + kTileBytes,
                          _mm512_unpackhi_epi16(of_first, of_second));
      to += 2 * kTileBytes;
    }
  }

  // Adds the products of a page to 16 columns of the values; the first page of
  // a unit begins them.
  [[gnu::always_inline]] void Multiply(int page, int tile, bool begins) const {
    float* values = rows_.values + tile * 16;
    const int64_t values_bytes = int64_t{keys_.v_dim} * 4;
    if (tile == 0) {
      _tile_loadd(3, rows_.weights + page * kPagePairs, kTileKeys * 4);
    }
    _tile_loadd(1, PackedOf(page) + tile * kTileBytes, kTileRowBytes);
    if (begins) {
      _tile_zero(4);
    } else {
      _tile_loadd(4, values, values_bytes);
    }
    _tile_dpbf16ps(4, 3, 1);
    _tile_stored(4, values, values_bytes);
  }

  const TileKeys& keys_;
  const UnitRows& rows_;
  const int64_t row_bytes_;  // of V
  const int num_tiles_;      // of columns
  int numbers_[kTileHalves];
};

// Tiles of pages of which halves are left out are half empty: by them lists of
// quest's picks took 1.3 times as long (the driver's figure).
bool LeavesHalvesOut(const TileKeys& keys) {
  for (int key = keys.begin; key < keys.end; key += kHalfTokens) {
    if (!ReadsHalf(keys, key)) return true;
  }
  return false;
}

}  // namespace

void AttendUnitAmx(const TileKeys& keys, int begin, int end,
                   const UnitRows& rows) {
  if (LeavesHalvesOut(keys)) {
    return AttendUnit<Avx512Lanes, BFloat16Words>(keys, begin, end, rows);
  }
  const TileConfig config = UnitTiles(rows.num_rows);
  FinishStores();
  _tile_loadconfig(&config);
  MultiplyKeyTiles(keys, rows);
  UnitWeights<Avx512Lanes, BFloat16Words>(keys, begin, end, rows);
  ValuesByTile(keys, rows).Run();
  _tile_release();
  FinishStores();
}

}  // namespace winnow
