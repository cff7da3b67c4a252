// bfloat16 with CUDA's names.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_CUDA_BF16_H_
#define WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_CUDA_BF16_H_

#include "backend/cuda/emulated/include/cuda_runtime.h"
#include "tensor/dtype.h"

struct __nv_bfloat16 {
  winnow::BFloat16 value;
};
inline float __bfloat162float(__nv_bfloat16 x) {
  return static_cast<float>(x.value);
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return {winnow::BFloat16(x)};
}

#endif  // WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_CUDA_BF16_H_
