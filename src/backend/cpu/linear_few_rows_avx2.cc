#include <immintrin.h>

#include <cstddef>

#include "backend/cpu/linear_few_rows.h"

namespace winnow {
namespace {

// Inputs of a register of weights: eight words of two.
constexpr int64_t kStep = 16;

// Columns that stand in registers together: with each row an accumulator, of
// which some eight are needed, as each waits for its last sum.
template <int kRows>
constexpr int kColumnsOf = kRows == 1   ? 4
                           : kRows == 4 ? 2
                                        : 3;

// How far ahead of its use a weight is asked for, in elements.
constexpr int64_t kAhead = 2048;

// Both of each word as float32.
struct Halves {
  __m256 low, high;
};

[[gnu::always_inline]] inline Halves Widen(__m256i words) {
  return {
      _mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
      _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65536)))};
}

[[gnu::always_inline]] inline Halves LoadWeights(const uint16_t* from) {
  __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  asm("" : "+x"(words));  // GCC 12 would load again for each use
  return Widen(words);
}

// The first `count` elements, then zeros. REQUIRES: count < 16.
[[gnu::always_inline]] inline __m256i LoadFirst(const uint16_t* from,
                                                int64_t count) {
  alignas(32) uint16_t words[kStep] = {};
  for (int64_t i = 0; i < count; ++i) words[i] = from[i];
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(words));
}

// kColumns columns by kRows rows: their accumulators, and where they read.
template <int kRows, int kColumns>
struct Block {
  const float* x;  // [steps, kRows, 2, 8]
  const uint16_t* weight;
  int64_t weight_stride;
  __m256 sums[kColumns][kRows];

  [[gnu::always_inline]] void Clear() {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[c][r] = _mm256_setzero_ps();
    }
  }

  [[gnu::always_inline]] void Add(int64_t step, const Halves* weights) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const float* of_row = x + (step * kRows + r) * kStep;
      const __m256 low = _mm256_loadu_ps(of_row);
      const __m256 high = _mm256_loadu_ps(of_row + 8);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        sums[c][r] =
            _mm256_fmadd_ps(weights[c].high, high,
                            _mm256_fmadd_ps(weights[c].low, low, sums[c][r]));
      }
    }
  }

  [[gnu::always_inline]] void AddStep(int64_t step) {
    Halves weights[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      weights[c] = LoadWeights(weight + c * weight_stride + step * kStep);
    }
    Add(step, weights);
  }

  // Steps [begin, end), two at a time: a line of each column, for which the
  // one `ahead` elements further on is asked for.
  [[gnu::always_inline]] void AddLines(int64_t begin, int64_t end,
                                       int64_t ahead) {
    for (int64_t step = begin; step + 2 <= end; step += 2) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        _mm_prefetch(reinterpret_cast<const char*>(weight + c * weight_stride +
                                                   step * kStep + ahead),
                     _MM_HINT_T0);
      }
      AddStep(step);
      AddStep(step + 1);
    }
  }

  // The last step, of `count` elements.
  [[gnu::always_inline]] void AddRest(int64_t step, int64_t count) {
    Halves weights[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      weights[c] =
          Widen(LoadFirst(weight + c * weight_stride + step * kStep, count));
    }
    Add(step, weights);
  }
};

// Halves are folded: lane i + lane i + 4, then 2, 1.
[[gnu::always_inline]] inline float SumOf(__m256 x) {
  const __m128 four =
      _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <int kRows, int kColumns>
void MultiplyBlock(const FewRowsTile& tile, int64_t column) {
  Block<kRows, kColumns> block;
  block.x = static_cast<const float*>(tile.interleaved);
  block.weight = tile.weight + column * tile.weight_stride;
  block.weight_stride = tile.weight_stride;
  block.Clear();
  const int64_t steps = tile.num_in / kStep;
  // Near the end of these columns' rows the next ones' starts are asked for.
  const int64_t lines = steps / 2 * 2;
  const int64_t last = kAhead / kStep;
  const int64_t turn = lines > last ? lines - last : 0;
  block.AddLines(0, turn, kAhead);
  block.AddLines(turn, lines, kAhead + (kColumns - 1) * tile.weight_stride);
  if (lines < steps) block.AddStep(lines);
  const int64_t rest = tile.num_in % kStep;
  if (rest != 0) block.AddRest(steps, rest);
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      tile.sums[r * kFewRowsColumns + column + c] = SumOf(block.sums[c][r]);
    }
  }
}

template <int kRows>
void MultiplyRows(const FewRowsTile& tile) {
  constexpr int kColumns = kColumnsOf<kRows>;
  static_assert(kFewRowsColumns % kColumns == 0);
  int64_t column = 0;
  for (; column + kColumns <= tile.num_columns; column += kColumns) {
    MultiplyBlock<kRows, kColumns>(tile, column);
  }
  for (; column < tile.num_columns; ++column) {
    MultiplyBlock<kRows, 1>(tile, column);
  }
}

// [steps, rows, first halves and then second halves of eight words].
void InterleaveRows(const FewRowsInput& input) {
  auto* to = static_cast<float*>(input.interleaved);
  for (int64_t begin = 0; begin < input.num_in; begin += kStep) {
    const int64_t left = input.num_in - begin;
    for (int r = 0; r < input.num_rows; ++r) {
      const uint16_t* from = input.x + r * input.x_stride + begin;
      const Halves x =
          Widen(left >= kStep
                    ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))
                    : LoadFirst(from, left));
      _mm256_storeu_ps(to, x.low);
      _mm256_storeu_ps(to + 8, x.high);
      to += kStep;
    }
  }
}

void Multiply(const FewRowsTile& tile) {
  using Kernel = void (*)(const FewRowsTile&);
  constexpr Kernel kKernels[] = {MultiplyRows<1>, MultiplyRows<2>,
                                 MultiplyRows<3>, MultiplyRows<4>};
  kKernels[tile.num_rows - 1](tile);
}

}  // namespace

FewRowsKernels Avx2FewRows() { return {4, InterleaveRows, Multiply}; }

}  // namespace winnow
