// The tensor core instruction of products of few rows; device/attend_mma.cuh
// says which lane of a warp holds which element.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_MMA_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_MMA_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace winnow::device {

struct FragmentA {
  uint32_t words[4];
};
struct FragmentB {
  uint32_t words[2];
};

// c [16, 8] += a [16, 16] b [16, 8], of elements T; sums in float32.
template <typename T>
__device__ inline void MultiplyFewRows(const FragmentA& a, const FragmentB& b,
                                       float (&c)[4]);
template <>
__device__ inline void MultiplyFewRows<__nv_bfloat16>(const FragmentA& a,
                                                      const FragmentB& b,
                                                      float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]),
        "r"(b.words[0]), "r"(b.words[1]));
}
template <>
__device__ inline void MultiplyFewRows<__half>(const FragmentA& a,
                                               const FragmentB& b,
                                               float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]),
        "r"(b.words[0]), "r"(b.words[1]));
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_MMA_CUH_
