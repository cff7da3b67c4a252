// binary16 with CUDA's names.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_CUDA_FP16_H_
#define WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_CUDA_FP16_H_

#include "backend/cuda/emulated/include/cuda_runtime.h"
#include "tensor/dtype.h"

struct __half {
  winnow::Float16 value;
};
inline float __half2float(__half x) { return static_cast<float>(x.value); }
inline __half __float2half_rn(float x) { return {winnow::Float16(x)}; }

#endif  // WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_CUDA_FP16_H_
