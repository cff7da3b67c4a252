// What a product whose inputs are split is of.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_TASK_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_TASK_CUH_

#include <cuda.h>
#include <cuda_bf16.h>

#include "backend/cuda/device/attend/tile_run.cuh"
#include "backend/cuda/device/linear/activation.cuh"
#include "backend/cuda/device/linear/split_memory.cuh"

namespace winnow::device {

using SplitElement = __nv_bfloat16;

// One product, out = residual + scale (x W^T + b); where it gates, out =
// activation(gate) * up, of two weights of one shape.
template <typename Out>
struct SplitTask {
  CUtensorMap weight, up, x;  // boxes of 64 rows and 64 inputs
  const SplitElement *bias, *up_bias;
  const float* residual;
  Out* out;
  int64_t residual_stride, out_stride;
  int rows, inputs, outputs;
  float scale;
  Activation activation;
};

// Which tile of outputs the j-th of a pass is: where gates and ups meet, a run
// counts them as one, and a gate stands before its up.
template <bool kGated>
struct SplitTiles {
  static constexpr int kEach = kGated ? 2 : 1;  // of one of the run
  static constexpr int kAPass = kSplitTiles / kEach;

  __device__ static int Output(const TileRun& run, int j) {
    return (run.first + j / kEach) * kSplitOutputs;
  }
  __device__ static bool IsUp(int j) { return kGated && j % 2 == 1; }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_TASK_CUH_
