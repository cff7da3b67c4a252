// What gates a feed-forward network.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_ACTIVATION_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_ACTIVATION_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace winnow::device {

// As in backend/backend.h.
enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu };

template <Activation kActivation>
__device__ inline float Activate(float x) {
  if constexpr (kActivation == Activation::kSilu) {
    // Within 2 ulp of x / (1 + exp(-x)), and without its branch for quotients
    // near the ends of the range, which keeps a thread's numbers one after the
    // other.
    return __fdividef(x, 1.0f + expf(-x));
  } else if constexpr (kActivation == Activation::kGelu) {
    constexpr float kInvSqrt2 = 0.70710678118654752440f;
    return 0.5f * x * (1.0f + erff(x * kInvSqrt2));
  } else {
    // Hendrycks and Gimpel, arXiv 1606.08415, section 2: sqrt(2 / pi).
    constexpr float kFactor = 0.79788456080286535588f;
    const float inner = kFactor * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + tanhf(inner));
  }
}

__device__ inline float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kSilu:
      return Activate<Activation::kSilu>(x);
    case Activation::kGelu:
      return Activate<Activation::kGelu>(x);
    default:
      return Activate<Activation::kGeluTanh>(x);
  }
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_ACTIVATION_CUH_
