// Visits a Dtype as the type that kernels are written in.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_CUDA_TYPES_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_CUDA_TYPES_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/float8.cuh"
#include "base/check.h"
#include "tensor/view.h"

namespace winnow {

// Calls visit(T()) with the device's type of a float `dtype`.
template <typename Visit>
void WithCudaFloat(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::kFloat32:
      return visit(float());
    case Dtype::kBFloat16:
      return visit(__nv_bfloat16());
    case Dtype::kFloat16:
      return visit(__half());
    default:
      CHECK(false, "dtype={} is no float type", DtypeName(dtype));
  }
}

// The same of a summary row's dtype, which may be float8_e4m3.
template <typename Visit>
void WithCudaRow(Dtype dtype, Visit&& visit) {
  if (dtype == Dtype::kFloat8E4M3) return visit(device::Float8());
  WithCudaFloat(dtype, visit);
}

// A float `dtype` as kernels are told of it.
inline device::FloatType FloatTypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return device::FloatType::kFloat32;
    case Dtype::kBFloat16:
      return device::FloatType::kBFloat16;
    case Dtype::kFloat16:
      return device::FloatType::kFloat16;
    default:
      CHECK(false, "dtype={} is no float type", DtypeName(dtype));
  }
}

// A view's elements in the device's type. REQUIRES: T fits view.dtype.
template <typename T>
T* CudaData(const View& view) {
  return reinterpret_cast<T*>(view.data);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_CUDA_TYPES_H_
