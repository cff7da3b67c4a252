// The product of a few rows over a Set: an instruction set's registers of
// bfloat16 or float16. Included by the kernel files that are compiled for one.
//
// A Set has
// - Pairs: kStep elements, as they are multiplied; kStep divides 32.
// - Sums: a register of float32.
// - kMaxRows at a time.
// - Columns(rows): columns that stand in registers together, a stream of memory
//   each.
// - Ahead(rows): how far ahead of its use a weight is asked for, in elements:
//   the hardware's own prefetching stops at every 4 KiB.
// - Load, LoadFirst: of memory; the first `count`, then zeros.
// - LoadKept, Keep: of and to x as Interleave leaves it, a piece of 4 kStep
//   bytes at most by its number.
// - Zero, MultiplyAdd, SumOf.
#ifndef WINNOW_BACKEND_CPU_LINEAR_FEW_ROWS_BLOCK_H_
#define WINNOW_BACKEND_CPU_LINEAR_FEW_ROWS_BLOCK_H_

#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "backend/cpu/linear/linear_few_rows.h"

namespace winnow {

// kColumns columns by kRows rows: their accumulators, and where they read.
template <class Set, int kRows, int kColumns>
class FewRowsBlock {
 public:
  [[gnu::always_inline]] FewRowsBlock(const FewRowsTile& tile, int64_t column)
      : x_(tile.interleaved),
        weight_(tile.weight + column * tile.weight_stride),
        weight_stride_(tile.weight_stride) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums_[c][r] = Set::Zero();
    }
  }

  [[gnu::always_inline]] void AddInputs(int64_t num_in) {
    const int64_t steps = num_in / kStep;
    const int64_t lines = num_in / kLine;
    // Near the end of these columns' rows the next ones' starts are asked for.
    constexpr int64_t kAhead = Set::Ahead(kRows);
    constexpr int64_t kLast = kAhead / kLine;
    const int64_t turn = lines > kLast ? lines - kLast : 0;
    AddLines(0, turn, kAhead);
    AddLines(turn, lines, kAhead + (kColumns - 1) * weight_stride_);
    for (int64_t step = lines * kSteps; step < steps; ++step) {
      AddStep(step);
    }
    if (const int64_t rest = num_in % kStep; rest != 0) {
      AddStep(steps, [rest](const uint16_t* from) {
        return Set::LoadFirst(from, rest);
      });
    }
  }

  // f32 [kRows, kColumns], rows kFewRowsColumns apart.
  [[gnu::always_inline]] void StoreSums(float* to) const {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        to[r * kFewRowsColumns + c] = Set::SumOf(sums_[c][r]);
      }
    }
  }

 private:
  static constexpr int64_t kStep = Set::kStep;
  static constexpr int64_t kLine = 32;  // elements of a line of the cache
  static constexpr int64_t kSteps = kLine / kStep;
  static_assert(kLine % kStep == 0);

  [[gnu::always_inline]] void AddLines(int64_t begin, int64_t end,
                                       int64_t ahead) {
    for (int64_t line = begin; line < end; ++line) {
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const uint16_t* from = weight_ + c * weight_stride_ + line * kLine;
        _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
      }
#pragma GCC unroll 2
      for (int64_t s = 0; s < kSteps; ++s) AddStep(line * kSteps + s);
    }
  }

  [[gnu::always_inline]] void AddStep(int64_t step) {
    AddStep(step, [](const uint16_t* from) { return Set::Load(from); });
  }
  // `load`: the weights of a column from an address on.
  template <class LoadWeights>
  [[gnu::always_inline]] void AddStep(int64_t step, LoadWeights load) {
    typename Set::Pairs weights[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      weights[c] = load(weight_ + c * weight_stride_ + step * kStep);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto x = Set::LoadKept(x_, step * kRows + r);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        sums_[c][r] = Set::MultiplyAdd(weights[c], x, sums_[c][r]);
      }
    }
  }

  const void* x_;
  const uint16_t* weight_;
  int64_t weight_stride_;
  typename Set::Sums sums_[kColumns][kRows];
};

template <class Set>
struct FewRows {
  static FewRowsKernels Kernels() {
    return {Set::kMaxRows, Interleave, Multiply};
  }

 private:
  static_assert(Set::kMaxRows <= kMaxFewRows);

  // [steps, rows], a step's pieces side by side.
  static void Interleave(const FewRowsInput& input) {
    int64_t piece = 0;
    for (int64_t begin = 0; begin < input.num_in; begin += Set::kStep) {
      const int64_t left = input.num_in - begin;
      for (int r = 0; r < input.num_rows; ++r) {
        const uint16_t* from = input.x + r * input.x_stride + begin;
        Set::Keep(
            input.interleaved, piece++,
            left >= Set::kStep ? Set::Load(from) : Set::LoadFirst(from, left));
      }
    }
  }

  template <int kRows, int kColumns>
  static void MultiplyBlock(const FewRowsTile& tile, int64_t column) {
    FewRowsBlock<Set, kRows, kColumns> block(tile, column);
    block.AddInputs(tile.num_in);
    block.StoreSums(tile.sums + column);
  }

  template <int kRows>
  static void MultiplyRows(const FewRowsTile& tile) {
    constexpr int kColumns = Set::Columns(kRows);
    static_assert(kFewRowsColumns % kColumns == 0);
    int64_t column = 0;
    for (; column + kColumns <= tile.num_columns; column += kColumns) {
      MultiplyBlock<kRows, kColumns>(tile, column);
    }
    for (; column < tile.num_columns; ++column) {
      MultiplyBlock<kRows, 1>(tile, column);
    }
  }

  static void Multiply(const FewRowsTile& tile) {
    MultiplyAnyRows(tile, std::make_integer_sequence<int, Set::kMaxRows>());
  }
  template <int... kLess>
  static void MultiplyAnyRows(const FewRowsTile& tile,
                              std::integer_sequence<int, kLess...>) {
    using Kernel = void (*)(const FewRowsTile&);
    constexpr Kernel kKernels[] = {MultiplyRows<kLess + 1>...};
    kKernels[tile.num_rows - 1](tile);
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_FEW_ROWS_BLOCK_H_
