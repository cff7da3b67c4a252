// How the kernels that choose are launched.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_LAUNCH_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_LAUNCH_H_

#include <string_view>

#include "backend/cuda/device/select/select_cut.cuh"
#include "backend/cuda/runtime/dependent_launch.h"

namespace winnow {

// A kernel of num_threads that keeps words of 32 bits in shared memory, and
// its form where the wave's memory has them (Task::memory.keys).
template <typename Task>
struct ChoosingKernel {
  std::string_view op;
  void (*in_shared)(Task);
  void (*in_memory)(Task) = nullptr;
  int num_threads = device::kChooseThreads;
};

template <typename Task>
void LaunchChoosing(CudaQueue& queue, const ChoosingKernel<Task>& kernel,
                    const dim3& grid, int64_t num_words, const Task& task) {
  LaunchGrid launch = {.blocks = grid, .num_threads = kernel.num_threads};
  if (task.memory.keys != nullptr) {
    return LaunchDependent(queue, kernel.op, kernel.in_memory, launch, task);
  }
  launch.shared_bytes = static_cast<int>(int64_t{sizeof(uint32_t)} * num_words);
  queue.Keep(cudaFuncSetAttribute(kernel.in_shared,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  launch.shared_bytes),
             "Select: shared memory for a choice");
  LaunchDependent(queue, kernel.op, kernel.in_shared, launch, task);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_LAUNCH_H_
