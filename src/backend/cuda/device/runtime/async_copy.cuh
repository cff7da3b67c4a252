// Copies into shared memory that a thread starts and waits for later.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_ASYNC_COPY_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_ASYNC_COPY_CUH_

#include "backend/cuda/device/runtime/shared_address.cuh"

namespace winnow::device {

// Starts to copy 16 bytes, past L1; with num_bytes = 0 zeros are written and
// nothing is read. REQUIRES: both addresses are multiples of 16.
__device__ inline void CopyAsync16(uint32_t to, const void* from,
                                   uint32_t num_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(num_bytes)
               : "memory");
}

// Asks for a line of 128 bytes to be brought into L2.
__device__ inline void LoadIntoL2(const void* from) {
  asm volatile(
      "prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
}

// Makes one group of the copies that this thread has started since the last.
__device__ inline void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's groups are under way. What
// other threads copied is seen after a barrier with them.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_ASYNC_COPY_CUH_
