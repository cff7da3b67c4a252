// Sums over the threads of a block, in an order that its size alone decides.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ROWS_ROW_SUM_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ROWS_ROW_SUM_CUH_

#include <cuda_runtime.h>

namespace winnow::device {

// The same sum in every lane.
__device__ inline float WarpSum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// The same sum in every thread. `of_warps` is shared memory of 32 floats, free
// again after the next __syncthreads().
__device__ inline float BlockSum(float value, float* of_warps) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  value = WarpSum(value);
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  return WarpSum(lane < blockDim.x / 32 ? of_warps[lane] : 0.0f);
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ROWS_ROW_SUM_CUH_
