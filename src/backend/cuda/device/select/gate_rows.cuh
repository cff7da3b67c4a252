// Learned gates: numbers times a KV head's weights, normalised and turned.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_GATE_ROWS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_GATE_ROWS_CUH_

#include "backend/cuda/device/rows/row_sum.cuh"

namespace winnow::device {

constexpr int kGateThreads = 256;
// Rows that a block makes by one pass over the weights.
constexpr int kGateRows = 4;

// One side of a layer's gates (backend/contract/gate_weights.h).
struct GateSide {
  const float* weights;  // [kv_heads, inputs, k_dim]
  int64_t head_stride;   // in numbers
  const float* norm;     // [k_dim], or null
  int num_inputs;
  int k_dim;
  float epsilon;  // of the norm
};

// Slices of inputs, or of tokens, that a block's threads make of `items` a
// slice.
__host__ __device__ inline int NumSlices(int items) {
  return items < kGateThreads ? kGateThreads / items : 1;
}

// The angle that a position is turned by: cosine, sine, scaled.
__device__ inline float2 GateAngle(int position, float frequency, float scale) {
  // As RotaryAngles has them.
  const float angle = static_cast<float>(position) * frequency;
  double sine, cosine;
  sincos(static_cast<double>(angle), &sine, &cosine);
  return {static_cast<float>(cosine) * scale, static_cast<float>(sine) * scale};
}

// sums = the rows' numbers [begin, end) times the same inputs' weights, by a
// block: threads over slices of inputs and channels, inputs ascend in a slice,
// then slices do. What a row comes to depends on no other row.
// REQUIRES: a __syncthreads() since the last number; one behind it ends it.
__device__ inline void ProjectRows(
    const GateSide& side, int kv_head, int begin, int end,
    const float* numbers,  // f32 [kGateRows, end - begin], shared
    float* slices) {       // f32 [slices, kGateRows, k_dim], shared; sums: the
                           // first one
  const int k_dim = side.k_dim, count = end - begin;
  const int num_slices = NumSlices(k_dim);
  const int each = (count + num_slices - 1) / num_slices;
  const float* weights =
      side.weights + kv_head * side.head_stride + int64_t{begin} * k_dim;
  for (int i = threadIdx.x; i < num_slices * k_dim; i += kGateThreads) {
    const int slice = i / k_dim, c = i % k_dim;
    const int end_input = min((slice + 1) * each, count);
    float sums[kGateRows] = {};
#pragma unroll 8
    for (int n = slice * each; n < end_input; ++n) {
      const float weight = weights[int64_t{n} * k_dim + c];
#pragma unroll
      for (int r = 0; r < kGateRows; ++r) {
        sums[r] += numbers[r * count + n] * weight;
      }
    }
#pragma unroll
    for (int r = 0; r < kGateRows; ++r) {
      slices[(slice * kGateRows + r) * k_dim + c] = sums[r];
    }
  }
  __syncthreads();
  const int row_numbers = kGateRows * k_dim;
  for (int i = threadIdx.x; i < row_numbers; i += kGateThreads) {
    float sum = slices[i];
    for (int slice = 1; slice < num_slices; ++slice) {
      sum += slices[slice * row_numbers + i];
    }
    slices[i] = sum;
  }
  __syncthreads();
}

// A row's sums normalised, where the gate says so, and turned: write(channel,
// number). By a warp. angle(pair): cosine, sine.
template <typename Angle, typename Write>
__device__ inline void FinishGateRow(const GateSide& side,
                                     float* row,  // f32 [k_dim], shared
                                     int half_dim, Angle&& angle,
                                     Write&& write) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float scale = 1;
  if (side.norm != nullptr) {
    float squares = 0;
    for (int c = lane; c < side.k_dim; c += 32) squares += row[c] * row[c];
    squares = WarpSum(squares);
    scale =
        1.0f / sqrtf(squares / static_cast<float>(side.k_dim) + side.epsilon);
  }
  const auto normed = [&](int c) {
    return side.norm == nullptr ? row[c] : row[c] * scale * side.norm[c];
  };
  for (int i = lane; i < half_dim; i += 32) {
    const float first = normed(i), second = normed(half_dim + i);
    const float2 turn = angle(i);
    write(i, first * turn.x - second * turn.y);
    write(half_dim + i, second * turn.x + first * turn.y);
  }
  for (int c = 2 * half_dim + lane; c < side.k_dim; c += 32) {
    write(c, normed(c));
  }
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_GATE_ROWS_CUH_
