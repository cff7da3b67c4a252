// The prompt kernel on AMX tiles of 16 rows of 64 bytes. Scores come out [key,
// row] as they do without AMX: K as stored is the left factor, the packed q
// the right one. For the values V is laid out [column, pair of keys].
#include "backend/cpu/attend/attend_tile.h"
#include "backend/cpu/isa/amx_tiles.h"
#include "backend/cpu/isa/bfloat16_words.h"
#include "backend/cpu/isa/lanes_avx512.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {
namespace {

// Words of a tile's row; keys that a step over pairs of keys takes in.
constexpr int kTileWords = 16;
constexpr int kRowBytes = kTileRows * 4;
constexpr int kPairs = kTileKeys / 2;

// Tiles 0 to 3 += the products of left factors 4, 5 and right factors 6, 7.
[[gnu::always_inline]] inline void MultiplyTiles() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// scores [key, row] for one page's 32 keys and 32 rows from `row` on.
void PageScores(const TileKeys& keys, const TileRows& rows, int page, int row) {
  const int num_words = keys.k_dim / 2;
  const int k_row_bytes = keys.k_stride * 2;
  const auto* q = static_cast<const float*>(rows.q) + row;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int word = 0; word < num_words; word += kTileWords) {
    _tile_loadd(4, keys.k[2 * page] + word * 4, k_row_bytes);
    _tile_loadd(5, keys.k[2 * page + 1] + word * 4, k_row_bytes);
    _tile_loadd(6, q + word * kTileRows, kRowBytes);
    _tile_loadd(7, q + word * kTileRows + 16, kRowBytes);
    MultiplyTiles();
  }
  float* scores = rows.scores + page * kTilePageTokens * kTileRows + row;
  _tile_stored(0, scores, kRowBytes);
  _tile_stored(1, scores + 16, kRowBytes);
  _tile_stored(2, scores + 16 * kTileRows, kRowBytes);
  _tile_stored(3, scores + 16 * kTileRows + 16, kRowBytes);
}

// Weights of the keys that a page has and the tile has not: zeros.
void ClearOtherWeights(const TileKeys& keys, const TileRows& rows) {
  const auto clear = [&](int begin, int end) {
    for (int i = begin * kTileRows; i < end * kTileRows; i += 16) {
      _mm512_storeu_ps(rows.weights + i, _mm512_setzero_ps());
    }
  };
  const int page_pairs = kTilePageTokens / 2;
  const int begin = keys.begin / 2;
  const int end = EndOfSteps(keys) / 2;
  clear(begin / page_pairs * page_pairs, begin);
  clear(end, (end + page_pairs - 1) / page_pairs * page_pairs);
}

// packed_v: words [v_dim, 64 pairs of keys], zeros where the tile has no key.
void TransposeValues(const TileKeys& keys, const TileRows& rows, int page) {
  alignas(64) float pairs[16 * 16];
  __m512 columns[16];
  for (int column = 0; column < keys.v_dim; column += 16) {
    for (int pair = 0; pair < 16; ++pair) {
      const int key = page * kTilePageTokens + 2 * pair;
      const std::byte* v = keys.v[key / kHalfTokens] +
                           (key % kHalfTokens * keys.v_stride + column) * 2;
      __m512i words = _mm512_setzero_si512();
      if (key >= keys.begin && key < keys.end) {
        words = key + 1 < keys.end
                    ? BFloat16Words::Pairs<2>(v, keys.v_stride * 2)
                    : BFloat16Words::Pairs<1>(v, 0);
      }
      _mm512_store_si512(pairs + pair * 16, words);
    }
    Avx512Lanes::Transpose16(pairs, 16, 16, columns);
    for (int c = 0; c < 16; ++c) {
      _mm512_storeu_ps(rows.packed_v + (column + c) * kPairs + page * 16,
                       columns[c]);
    }
  }
}

void ScaleValues(const TileKeys& keys, const TileRows& rows,
                 const float* keep) {
  for (int row = 0; row < kTileRows; row += 16) {
    const __m512 kept = _mm512_loadu_ps(keep + row);
    for (int c = 0; c < keys.v_dim; ++c) {
      float* values = rows.values + c * kTileRows + row;
      _mm512_storeu_ps(values, _mm512_mul_ps(_mm512_loadu_ps(values), kept));
    }
  }
}

// values [c, row] += V^T weights for 32 rows from `row` on and 16 or 32
// columns from `c` on.
template <bool kBothColumns>
void AddValues(const TileKeys& keys, const TileRows& rows, int c, int row) {
  float* values = rows.values + c * kTileRows + row;
  _tile_loadd(0, values, kRowBytes);
  _tile_loadd(1, values + 16, kRowBytes);
  if constexpr (kBothColumns) {
    _tile_loadd(2, values + 16 * kTileRows, kRowBytes);
    _tile_loadd(3, values + 16 * kTileRows + 16, kRowBytes);
  }
  const int end_page = (keys.end + kTilePageTokens - 1) / kTilePageTokens;
  for (int page = keys.begin / kTilePageTokens; page < end_page; ++page) {
    const float* v = rows.packed_v + c * kPairs + page * kTileWords;
    const float* weights = rows.weights + page * kTileWords * kTileRows + row;
    _tile_loadd(4, v, kPairs * 4);
    _tile_loadd(6, weights, kRowBytes);
    _tile_loadd(7, weights + 16, kRowBytes);
    if constexpr (kBothColumns) {
      _tile_loadd(5, v + 16 * kPairs, kPairs * 4);
      MultiplyTiles();
    } else {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
  _tile_stored(0, values, kRowBytes);
  _tile_stored(1, values + 16, kRowBytes);
  if constexpr (kBothColumns) {
    _tile_stored(2, values + 16 * kTileRows, kRowBytes);
    _tile_stored(3, values + 16 * kTileRows + 16, kRowBytes);
  }
}

// REQUIRES: k_dim is a multiple of 32.
void AttendTileAmx(const TileKeys& keys, const TileRows& rows) {
  const TileConfig config;
  FinishStores();
  _tile_loadconfig(&config);
  const int first_page = keys.begin / kTilePageTokens;
  const int end_page = (keys.end + kTilePageTokens - 1) / kTilePageTokens;
  for (int page = first_page; page < end_page; ++page) {
    PageScores(keys, rows, page, 0);
    PageScores(keys, rows, page, 32);
  }
  FinishStores();
  alignas(64) float keep[kTileRows];
  TileWeights<Avx512Lanes, BFloat16Words>(keys, rows, keep);
  ClearOtherWeights(keys, rows);
  for (int page = first_page; page < end_page; ++page) {
    TransposeValues(keys, rows, page);
  }
  ScaleValues(keys, rows, keep);
  FinishStores();
  for (int row = 0; row < kTileRows; row += 32) {
    int c = 0;
    for (; c + 32 <= keys.v_dim; c += 32) AddValues<true>(keys, rows, c, row);
    if (c < keys.v_dim) AddValues<false>(keys, rows, c, row);
  }
  _tile_release();
  FinishStores();
}

}  // namespace

VectorKernels AmxVectorKernels() {
  VectorKernels kernels = Avx512Bf16VectorKernels();
  kernels.narrow_tile_bfloat16 = kernels.tile_bfloat16;
  kernels.tile_bfloat16 = AttendTileAmx;
  kernels.tile_bfloat16_k_multiple = 32;
  kernels.unit_tile_bfloat16 = AttendUnitAmx;
  kernels.score_tile_bfloat16 = ScoreTileAmx;
  // Which is taken is not to depend on the rows at hand. By sixteen CPUs, in
  // turn, rows of fp8 as they are stored took 0.7 of the time of tiles of
  // copies for four query heads
  // (record 2026-11-28-afd50ba-verbs-in-turn-amx.json); for eight 1.2
  // and for sixteen 1.5, without a record.
  kernels.score_float8 = nullptr;
  return kernels;
}

}  // namespace winnow
