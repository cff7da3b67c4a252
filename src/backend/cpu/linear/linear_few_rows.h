// The product of a few rows, of bfloat16 or float16: reading the weights once,
// as they are stored, is what it costs.
#ifndef WINNOW_BACKEND_CPU_LINEAR_LINEAR_FEW_ROWS_H_
#define WINNOW_BACKEND_CPU_LINEAR_LINEAR_FEW_ROWS_H_

#include <cstdint>

namespace winnow {

// Plain data and plain functions: a kernel is compiled for its instruction
// set, so it shares no inline function with the rest of the program.

// The most rows that any kernel takes at a time.
inline constexpr int kMaxFewRows = 8;
// Columns of a slice: a multiple of the columns that stand in registers
// together, whatever the number of rows.
inline constexpr int kFewRowsColumns = 48;

// Room for x as a kernel takes it: for each chunk of inputs that chunk of every
// row, the last chunk padded with zeros. One short stream, without the cache
// set conflicts of rows that lie a power of two apart.
constexpr int64_t InterleavedBytes(int64_t num_rows, int64_t num_in) {
  constexpr int64_t kChunk = 32;
  return (num_in + kChunk - 1) / kChunk * kChunk * num_rows * 4;
}

struct FewRowsInput {
  int num_rows = 0;  // in [1, FewRowsKernels::max_rows]
  int64_t num_in = 0;
  const uint16_t* x = nullptr;  // [num_rows, num_in], rows x_stride apart
  int64_t x_stride = 0;
  void* interleaved = nullptr;  // [InterleavedBytes], aligned to 64 bytes
};

struct FewRowsTile {
  int num_rows = 0;  // in [1, FewRowsKernels::max_rows]
  int64_t num_in = 0;
  const void* interleaved = nullptr;
  // [num_columns, num_in], rows weight_stride apart.
  const uint16_t* weight = nullptr;
  int64_t weight_stride = 0;
  int64_t num_columns = 0;  // at most kFewRowsColumns
  float* sums = nullptr;    // f32 [num_rows, kFewRowsColumns]
};

// Of one instruction set and type of x and the weights.
struct FewRowsKernels {
  int max_rows = 0;  // at a time
  void (*interleave)(const FewRowsInput& input) = nullptr;
  // sums = x W^T. The order over the inputs is the same for every number of
  // rows and columns: an output has one accumulator of some lanes, to which one
  // register of weights after the other is added, by AVX2 the first and then
  // the second of each pair; then the lanes are added by one fixed tree.
  void (*multiply)(const FewRowsTile& tile) = nullptr;
};

// Of bfloat16. REQUIRES: this CPU has AVX2 and FMA; AVX512_BF16.
FewRowsKernels Avx2FewRows();
FewRowsKernels Avx512Bf16FewRows();
// Of float16. REQUIRES: this CPU has AVX2, FMA and F16C.
FewRowsKernels Avx2Float16FewRows();

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_LINEAR_FEW_ROWS_H_
