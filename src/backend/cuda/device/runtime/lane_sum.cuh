// Sums of integers over the lanes of a warp.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_LANE_SUM_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_LANE_SUM_CUH_

#include <cuda_runtime.h>

namespace winnow::device {

// The sum of `value` over a warp's lanes before this one.
__device__ inline int SumOfLanesBefore(int value) {
  const int lane = threadIdx.x % 32;
  int sum = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += before;
  }
  return sum - value;
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_LANE_SUM_CUH_
