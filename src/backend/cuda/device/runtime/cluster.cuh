// Blocks of a cluster, which write into each other's shared memory. (PTX ISA,
// "Distributed shared memory": mapa, st and mbarrier in shared::cluster.)
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_CLUSTER_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_CLUSTER_CUH_

#include "backend/cuda/device/runtime/mbarrier.cuh"

namespace winnow::device {

// All threads of all blocks arrive, and each then waits for all. What was
// written before is seen after.
__device__ inline void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ inline void WaitForCluster() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// Where what stands here at `shared` stands in another block.
__device__ inline uint32_t AddressIn(int rank, const void* shared) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(SharedAddress(shared)), "r"(rank));
  return address;
}

__device__ inline void StoreInCluster(uint32_t address, const float4& value) {
  asm volatile(
      "st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
}

// Arrives at a barrier of another block, which then sees what this thread, and
// those that it has met before, have stored there.
__device__ inline void ArriveInCluster(uint32_t barrier) {
  asm volatile(
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
          barrier)
      : "memory");
}

// Mbarrier::Wait for a barrier at which other blocks arrive.
__device__ inline void WaitForBlocks(Mbarrier& barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred passed;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 "
      "passed, [%0], %1;\n"
      "@passed bra DONE;\n"
      "bra AGAIN;\n"
      "DONE:\n"
      "}\n" ::"r"(SharedAddress(&barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_CLUSTER_CUH_
