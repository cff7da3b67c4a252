// Element types on the device, and their way to and from float32.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_ELEMENT_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_ELEMENT_CUH_

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

// A float type that is known when the kernel runs.
enum class FloatType : uint8_t { kFloat32, kBFloat16, kFloat16 };

__device__ inline float LoadFloat(const void* from, FloatType type,
                                  int64_t at) {
  switch (type) {
    case FloatType::kBFloat16:
      return ToFloat(static_cast<const __nv_bfloat16*>(from)[at]);
    case FloatType::kFloat16:
      return ToFloat(static_cast<const __half*>(from)[at]);
    default:
      return static_cast<const float*>(from)[at];
  }
}

// Rounds to nearest, ties to even.
__device__ inline void StoreFloat(void* to, FloatType type, int64_t at,
                                  float value) {
  switch (type) {
    case FloatType::kBFloat16:
      static_cast<__nv_bfloat16*>(to)[at] = FromFloat<__nv_bfloat16>(value);
      return;
    case FloatType::kFloat16:
      static_cast<__half*>(to)[at] = FromFloat<__half>(value);
      return;
    default:
      static_cast<float*>(to)[at] = value;
  }
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_ELEMENT_CUH_
