// CachePolicy: what L2 does with what a copy reads.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_CACHE_POLICY_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_CACHE_POLICY_CUH_

#include "backend/cuda/device/runtime/async_copy.cuh"

namespace winnow::device {

using CachePolicy = uint64_t;

// As what goes first: of what is read once and is more than L2 holds nothing is
// there when it comes around again, and without this the rest is not either.
__device__ inline CachePolicy EvictFirst() {
  CachePolicy policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// The same as CopyAsync16, kept in L2 by a policy.
__device__ inline void CopyAsync16(uint32_t to, const void* from,
                                   uint32_t num_bytes, CachePolicy policy) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, "
      "%3;" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(num_bytes), "l"(policy)
      : "memory");
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_CACHE_POLICY_CUH_
