// A pointer into shared memory as instructions take it.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_SHARED_ADDRESS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_SHARED_ADDRESS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace winnow::device {

__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_SHARED_ADDRESS_CUH_
