// Barriers in shared memory that count threads and copied bytes, and the
// rings of buffers that they guard.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_MBARRIER_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_MBARRIER_CUH_

#include "backend/cuda/device/runtime/shared_address.cuh"

namespace winnow::device {

// One phase passes when `num_arrivals` threads have arrived and the bytes that
// they announced have landed. 8 bytes of shared memory.
struct Mbarrier {
  uint64_t state;

  __device__ void Init(uint32_t num_arrivals) {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(this)),
        "r"(num_arrivals)
        : "memory");
  }
  __device__ void Arrive() {
    asm volatile(
        "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(this))
        : "memory");
  }
  // Arrives, and announces bytes that copies will bring.
  __device__ void ArriveExpecting(uint32_t num_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     SharedAddress(this)),
                 "r"(num_bytes)
                 : "memory");
  }
  // Blocks until the phase of this parity has passed.
  __device__ void Wait(uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred passed;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 passed, [%0], %1;\n"
        "@passed bra DONE;\n"
        "bra AGAIN;\n"
        "DONE:\n"
        "}\n" ::"r"(SharedAddress(this)),
        "r"(parity)
        : "memory");
  }
};

// Makes barriers that this thread has set up visible to copies.
__device__ inline void FenceMbarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Orders this thread's stores to shared memory before later reads and writes
// of the tensor cores and the copy engine.
__device__ inline void FenceAsyncShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Where a thread stands in a ring of kSize buffers: which one is next, and the
// parity of the phase in which it is filled.
template <int kSize>
struct RingPlace {
  int index = 0;
  uint32_t parity = 0;

  __device__ void Next() {
    if (++index == kSize) {
      index = 0;
      parity ^= 1;
    }
  }
};

// Meets `num_threads` threads at one of the block's 16 numbered barriers.
__device__ inline void NamedSync(int barrier, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(num_threads) : "memory");
}
// Counts as having come there, and goes on.
__device__ inline void NamedArrive(int barrier, int num_threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(num_threads)
               : "memory");
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_MBARRIER_CUH_
