// A kernel that begins before the one ahead of it has ended (programmatic
// dependent launch; LaunchDependent on the host).
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_DEPENDENT_LAUNCH_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_DEPENDENT_LAUNCH_CUH_

#include <cuda_runtime.h>

namespace winnow::device {

// Returns once all that was enqueued earlier has ended and is seen. Before it,
// a kernel may read only what no op of the step writes: weights, a step's
// tables (of rows, pages, segments), which the host copies in front of the
// ops, and summaries that are older (SelectArgs::first_token); and it writes
// nothing. After it, what others wrote is read past L1 or for the first
// time. Every block calls it, also where it has nothing to do: a kernel that
// ends ahead of the prior one would let the next begin too early.
__device__ inline void WaitForPrior() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// The next kernel may take what room there is, once every block has said so.
__device__ inline void LetNextBegin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// What a kernel says first that has nothing to do beforehand.
__device__ inline void BeginAfterPrior() {
  LetNextBegin();
  WaitForPrior();
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_DEPENDENT_LAUNCH_CUH_
