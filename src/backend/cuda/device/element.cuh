// Element types on the device, and their way to and from float32.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ELEMENT_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ELEMENT_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace winnow::device {

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float ToFloat(__half value) { return __half2float(value); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ inline T FromFloat(float value);
template <>
__device__ inline float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half FromFloat<__half>(float value) {
  return __float2half_rn(value);
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ELEMENT_CUH_
