// What becomes of the sums of a product of few rows.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_STORE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_STORE_CUH_

#include "backend/cuda/device/linear/activation.cuh"
#include "backend/cuda/device/linear/few_rows_norm.cuh"
#include "backend/cuda/device/linear/weight_queue.cuh"
#include "backend/cuda/device/runtime/element.cuh"

namespace winnow::device {

struct FewRowsShape {
  int rows, inputs, outputs;
  int64_t x_stride, weight_stride, residual_stride, out_stride;
  float scale;
};

// One product: out = residual + scale (x W^T + b). With `up`, of the weights'
// shape, out = activation(gate) * up.
template <typename T, typename Out>
struct FewRowsTask {
  FewRowsShape shape;
  const T *x, *weight, *bias, *up, *up_bias;
  const float* residual;
  Out* out;
  Activation activation;
  FewRowsNorm<T> norm;
};

// The numbers of a pass that a thread makes of all warps' sums, which stand as
// [tiles, warps, kRows, outputs of a tile]. Of a gated tile, half the sums are
// the up's.
template <typename T, typename Out, int kTiles, int kRows, bool kGated>
class PassNumbers {
 public:
  static constexpr int kSums = kRows * kTileOutputs;  // of a warp and tile

  __device__ PassNumbers(const FewRowsTask<T, Out>& task, const TileRun& run,
                         int num_tiles)
      : task_(task), first_tile_(run.first), num_tiles_(num_tiles) {}

  // Asks for what sums are added to, long before they are there. `out` may be
  // the same: a thread reads what it alone overwrites.
  __device__ void LoadResidual() {
    if (task_.residual == nullptr) return;
#pragma unroll
    for (int k = 0; k < kNumbers; ++k) {
      const Number number = Find(k);
      if (!number.is_there) continue;
      residuals_[k] =
          __ldcg(task_.residual + number.row * task_.shape.residual_stride +
                 number.output);
    }
  }

  __device__ void Store(const float* sums) const {
#pragma unroll
    for (int k = 0; k < kNumbers; ++k) {
      const Number number = Find(k);
      if (!number.is_there) continue;
      const float* of_warps = sums + number.tile * kFewRowsWarps * kSums +
                              number.row * kTileOutputs + number.in_tile;
      const float value =
          kGated ? Gated(number, of_warps) : Sum(number, of_warps, k);
      task_.out[number.row * task_.shape.out_stride + number.output] =
          FromFloat<Out>(value);
    }
  }

 private:
  static constexpr int kOutputs = kTileOutputs / (kGated ? 2 : 1);
  static constexpr int kThreads = kFewRowsWarps * 32;
  static constexpr int kNumbers =
      (kTiles * kRows * kOutputs + kThreads - 1) / kThreads;

  struct Number {
    bool is_there;
    int tile, row, in_tile, output;
  };

  __device__ Number Find(int k) const {
    const int i = static_cast<int>(threadIdx.x) + k * kThreads;
    Number number;
    number.tile = i / (kRows * kOutputs);
    number.row = i / kOutputs % kRows;
    number.in_tile = i % kOutputs;
    number.output = (first_tile_ + number.tile) * kOutputs + number.in_tile;
    number.is_there = number.tile < num_tiles_ &&
                      number.row < task_.shape.rows &&
                      number.output < task_.shape.outputs;
    return number;
  }

  // A number of a tile: all warps' sums, in the warps' order.
  __device__ static float SumOfWarps(const float* of_warps) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kFewRowsWarps; ++w) sum += of_warps[w * kSums];
    return sum;
  }

  __device__ float Sum(const Number& number, const float* of_warps,
                       int k) const {
    float sum = SumOfWarps(of_warps);
    if (task_.bias != nullptr) sum += ToFloat(task_.bias[number.output]);
    sum *= task_.shape.scale;
    return task_.residual == nullptr ? sum : sum + residuals_[k];
  }

  // Gate and up are rounded as products are.
  __device__ float Gated(const Number& number, const float* of_warps) const {
    float gate = SumOfWarps(of_warps);
    float up = SumOfWarps(of_warps + kOutputs);
    if (task_.bias != nullptr) gate += ToFloat(task_.bias[number.output]);
    if (task_.up_bias != nullptr) up += ToFloat(task_.up_bias[number.output]);
    gate = ToFloat(FromFloat<T>(gate * task_.shape.scale));
    up = ToFloat(FromFloat<T>(up * task_.shape.scale));
    return Activate(task_.activation, gate) * up;
  }

  const FewRowsTask<T, Out>& task_;
  const int first_tile_, num_tiles_;
  float residuals_[kNumbers] = {};
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_STORE_CUH_
