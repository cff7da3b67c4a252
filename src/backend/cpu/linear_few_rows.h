// The bfloat16 product of a few rows, for CPUs with AVX512_BF16: reading the
// weights once, as they are stored, is what it costs.
#ifndef WINNOW_BACKEND_CPU_LINEAR_FEW_ROWS_H_
#define WINNOW_BACKEND_CPU_LINEAR_FEW_ROWS_H_

#include <cstdint>

namespace winnow {

// Plain data and plain functions: the kernel is compiled for its instruction
// set, so it shares no inline function with the rest of the program.

inline constexpr int kMaxFewRows = 8;
// Inputs that one instruction takes in: 16 lanes of two.
inline constexpr int kFewRowsChunk = 32;
// Columns of a slice: a multiple of the columns that stand in registers
// together, whatever the number of rows.
inline constexpr int kFewRowsColumns = 48;

// Elements of x interleaved: for each chunk of inputs that chunk of every row,
// the last chunk padded with zeros. One short stream, without the cache set
// conflicts of rows that lie a power of two apart.
constexpr int64_t InterleavedElements(int64_t num_rows, int64_t num_in) {
  return (num_in + kFewRowsChunk - 1) / kFewRowsChunk * kFewRowsChunk *
         num_rows;
}

struct FewRowsInput {
  int num_rows = 0;  // in [1, kMaxFewRows]
  int64_t num_in = 0;
  const uint16_t* x = nullptr;  // bf16 [num_rows, num_in], rows x_stride apart
  int64_t x_stride = 0;
  // bf16 [chunks, num_rows, 32], aligned to 64 bytes.
  uint16_t* interleaved = nullptr;
};

struct FewRowsTile {
  int num_rows = 0;  // in [1, kMaxFewRows]
  int64_t num_in = 0;
  const uint16_t* interleaved = nullptr;  // bf16 [chunks, num_rows, 32]
  // bf16 [num_columns, num_in], rows weight_stride apart.
  const uint16_t* weight = nullptr;
  int64_t weight_stride = 0;
  int64_t num_columns = 0;  // at most kFewRowsColumns
  float* sums = nullptr;    // f32 [num_rows, kFewRowsColumns]
};

// REQUIRES, both: CpuKernels::kAvx512Bf16 is available.
void InterleaveFewRows(const FewRowsInput& input);
// sums = x W^T. The order over the inputs is the same for every number of rows
// and columns: chunk after chunk is added to an output's one accumulator of 16
// lanes by one vdpbf16ps, then the lanes are added by one fixed tree.
void MultiplyFewRows(const FewRowsTile& tile);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_FEW_ROWS_H_
