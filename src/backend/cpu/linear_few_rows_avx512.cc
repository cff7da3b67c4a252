#include <immintrin.h>

#include <cstddef>

#include "backend/cpu/linear_few_rows.h"

namespace winnow {
namespace {

// Inputs that one instruction takes in: 16 lanes of two.
constexpr int kChunk = 32;

// How weights are read with kRows rows: columns that stand in registers
// together, a stream each, and how far ahead of its use a weight is asked for,
// in elements. The hardware's own prefetching stops at every 4 KiB; this does
// not. One stream comes nearest to a plain read: it took `winnow bench step` of
// the 1B shape from 0.79 of one to 0.87 (two Zen 5 cores; before: six streams,
// asked for 256 ahead). With more rows x outgrows the first cache level, and is
// read less often where columns share it.
template <int kRows>
struct Streams {
  static constexpr int kColumns = kRows <= 2 ? 1 : 3;
  static constexpr int64_t kAhead = kRows <= 2 ? 3072 : 1024;
};

// The first `count` elements, then zeros. REQUIRES: count < 32.
[[gnu::always_inline]] inline __m512i LoadFirst(const uint16_t* from,
                                                int64_t count) {
  return _mm512_maskz_loadu_epi16((__mmask32{1} << count) - 1, from);
}

// kColumns columns by kRows rows: their accumulators, and where they read.
template <int kRows, int kColumns>
struct Block {
  const uint16_t* x;
  const uint16_t* weight;
  int64_t weight_stride;
  __m512 sums[kColumns][kRows];

  [[gnu::always_inline]] void Clear() {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[c][r] = _mm512_setzero_ps();
    }
  }

  [[gnu::always_inline]] void Add(int64_t chunk, const __m512i* weights) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto xs = reinterpret_cast<__m512bh>(
          _mm512_load_si512(x + (chunk * kRows + r) * kChunk));
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        sums[c][r] = _mm512_dpbf16_ps(
            sums[c][r], reinterpret_cast<__m512bh>(weights[c]), xs);
      }
    }
  }

  // Chunks [begin, end); weights are prefetched `ahead` elements further on.
  [[gnu::always_inline]] void AddChunks(int64_t begin, int64_t end,
                                        int64_t ahead) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      __m512i weights[kColumns];
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const uint16_t* from = weight + c * weight_stride + chunk * kChunk;
        weights[c] = _mm512_loadu_si512(from);
        _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
      }
      Add(chunk, weights);
    }
  }

  // The last chunk, of `count` elements.
  [[gnu::always_inline]] void AddRest(int64_t chunk, int64_t count) {
    __m512i weights[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      weights[c] =
          LoadFirst(weight + c * weight_stride + chunk * kChunk, count);
    }
    Add(chunk, weights);
  }
};

template <int kRows, int kColumns>
void MultiplyBlock(const FewRowsTile& tile, int64_t column) {
  Block<kRows, kColumns> block;
  block.x = static_cast<const uint16_t*>(tile.interleaved);
  block.weight = tile.weight + column * tile.weight_stride;
  block.weight_stride = tile.weight_stride;
  block.Clear();
  const int64_t chunks = tile.num_in / kChunk;
  // Near the end of these columns' rows the next ones' starts are asked for.
  constexpr int64_t kAhead = Streams<kRows>::kAhead;
  const int64_t last = kAhead / kChunk;
  const int64_t turn = chunks > last ? chunks - last : 0;
  block.AddChunks(0, turn, kAhead);
  block.AddChunks(turn, chunks, kAhead + (kColumns - 1) * tile.weight_stride);
  const int64_t rest = tile.num_in % kChunk;
  if (rest != 0) block.AddRest(chunks, rest);
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      tile.sums[r * kFewRowsColumns + column + c] =
          _mm512_reduce_add_ps(block.sums[c][r]);
    }
  }
}

template <int kRows>
void MultiplyRows(const FewRowsTile& tile) {
  constexpr int kColumns = Streams<kRows>::kColumns;
  static_assert(kFewRowsColumns % kColumns == 0);
  int64_t column = 0;
  for (; column + kColumns <= tile.num_columns; column += kColumns) {
    MultiplyBlock<kRows, kColumns>(tile, column);
  }
  for (; column < tile.num_columns; ++column) {
    MultiplyBlock<kRows, 1>(tile, column);
  }
}

// bf16 [chunks, rows, 32].
void InterleaveRows(const FewRowsInput& input) {
  auto* to = static_cast<uint16_t*>(input.interleaved);
  for (int64_t begin = 0; begin < input.num_in; begin += kChunk) {
    const int64_t left = input.num_in - begin;
    for (int r = 0; r < input.num_rows; ++r) {
      const uint16_t* from = input.x + r * input.x_stride + begin;
      _mm512_store_si512(to, left >= kChunk ? _mm512_loadu_si512(from)
                                            : LoadFirst(from, left));
      to += kChunk;
    }
  }
}

void Multiply(const FewRowsTile& tile) {
  using Kernel = void (*)(const FewRowsTile&);
  constexpr Kernel kKernels[kMaxFewRows] = {
      MultiplyRows<1>, MultiplyRows<2>, MultiplyRows<3>, MultiplyRows<4>,
      MultiplyRows<5>, MultiplyRows<6>, MultiplyRows<7>, MultiplyRows<8>};
  kKernels[tile.num_rows - 1](tile);
}

}  // namespace

FewRowsKernels Avx512Bf16FewRows() {
  return {kMaxFewRows, InterleaveRows, Multiply};
}

}  // namespace winnow
