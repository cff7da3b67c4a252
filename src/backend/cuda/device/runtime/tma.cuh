// Copies of boxes of a tensor into shared memory by Hopper's copy engine.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_TMA_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_TMA_CUH_

#include <cuda.h>

#include "backend/cuda/device/runtime/cache_policy.cuh"
#include "backend/cuda/device/runtime/mbarrier.cuh"

namespace winnow::device {

// Each is issued by one thread; the box's bytes count at `landed`.

__device__ inline void CopyBox(const CUtensorMap& map, const int (&at)[3],
                               void* to, Mbarrier& landed) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
          SharedAddress(to)),
      "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(SharedAddress(&landed))
      : "memory");
}

// The same, kept in L2 by a policy.
__device__ inline void CopyBox(const CUtensorMap& map, const int (&at)[3],
                               void* to, Mbarrier& landed, CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]),
      "r"(SharedAddress(&landed)), "l"(policy)
      : "memory");
}

__device__ inline void CopyBox(const CUtensorMap& map, const int (&at)[5],
                               void* to, Mbarrier& landed) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], "
      "[%7];" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
      "r"(SharedAddress(&landed))
      : "memory");
}

__device__ inline void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_TMA_CUH_
