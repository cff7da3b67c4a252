// The tensor core instructions of decode attention, and their fragments: which
// lane of a warp holds which element. With g = lane / 4 and t = lane % 4:
//  * an 8 x 8 matrix of bfloat16 is a register a lane: row g, columns 2 t (low
//    half) and 2 t + 1;
//  * A [16, 16] is four of them: rows 0 to 7 and 8 to 15 of columns 0 to 7,
//    then of columns 8 to 15;
//  * B [16, 8] is two of them, transposed: column g, rows 2 t and 2 t + 1, then
//    rows 2 t + 8 and 2 t + 9;
//  * C [16, 8] is four floats a lane: row g, columns 2 t and 2 t + 1, then row
//    g + 8, columns 2 t and 2 t + 1.
// (PTX ISA, "Matrix fragments for mma.m16n8k16".)
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_MMA_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_MMA_CUH_

#include <cuda_bf16.h>

#include <cstdint>

namespace winnow::device {

// Four 8 x 8 matrices from shared memory: lane l names row l % 8 of matrix
// l / 8, 16 bytes at a multiple of 16.
__device__ inline void LoadMatrices(uint32_t (&to)[4], uint32_t row_address) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(row_address)
      : "memory");
}
// The same, each matrix transposed.
__device__ inline void LoadTransposed(uint32_t (&to)[4], uint32_t row_address) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(row_address)
      : "memory");
}

// An 8 x 8 matrix held by the warp, transposed.
__device__ inline uint32_t Transposed(uint32_t matrix) {
  uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
               : "=r"(transposed)
               : "r"(matrix));
  return transposed;
}

// c += a b, products exact, sums in float32.
__device__ inline void MultiplyInto(float (&c)[4], const uint32_t (&a)[4],
                                    const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Rounded to nearest; `low` in the low half.
__device__ inline uint32_t PackBFloat16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_MMA_CUH_
