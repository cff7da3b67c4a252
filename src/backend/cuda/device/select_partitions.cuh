// From a list's scores by head and summary row to scores of partitions.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_PARTITIONS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_PARTITIONS_CUH_

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/select_cut.cuh"
#include "backend/cuda/device/select_row.cuh"
#include "backend/cuda/device/select_scores.cuh"

namespace winnow::device {

// Orders as std::max: a NaN that comes first stays.
__device__ inline float Greater(float a, float b) { return a < b ? b : a; }

// The scores that one list's partitions are made of.
struct ListScores {
  const float* planes;  // f32 [num_planes, capacity]
  int64_t capacity;
  int num_planes;
  int num_heads;     // that choose together, a plane each or several
  const float* lse;  // [num_planes], where they are mapped
  int num_rows;      // visible
  float scale;

  // exp(scale * score - lse), or 0 where nothing normalises.
  __device__ float Mapped(const Selector& selector, int plane, int row) const {
    const float score = planes[plane * capacity + row];
    if (selector.map == HeadMap::kNone) return score;
    const float of_head = lse[plane];
    return of_head == -INFINITY ? 0.0f : expf(score * scale - of_head);
  }

  // A summary row's score, reduced over the heads in their order.
  __device__ float OfRow(const Selector& selector, int row) const {
    float result = Mapped(selector, 0, row);
    for (int plane = 1; plane < num_planes; ++plane) {
      const float score = Mapped(selector, plane, row);
      result = selector.group == Reduction::kMax ? Greater(result, score)
                                                 : result + score;
    }
    if (selector.group == Reduction::kMean) {
      result /= static_cast<float>(num_heads);
    }
    if (selector.rounds_to_bfloat16) {
      result = ToFloat(FromFloat<__nv_bfloat16>(result));
    }
    return result;
  }

  // Rows pooled; -infinity where the partition has none.
  __device__ float OfPartition(const Selector& selector, int partition) const {
    const int64_t at =
        int64_t{partition} * selector.pool_stride - selector.pool_pad;
    const int64_t most = num_rows;
    const int first = static_cast<int>(min(max(at, int64_t{0}), most));
    const int64_t behind = at + selector.pool_size;
    const int end = static_cast<int>(min(max(behind, int64_t{first}), most));
    if (first == end) return -INFINITY;
    float result = OfRow(selector, first);
    for (int row = first + 1; row < end; ++row) {
      const float score = OfRow(selector, row);
      result = selector.pool == Reduction::kMax ? Greater(result, score)
                                                : result + score;
    }
    return selector.pool == Reduction::kMean
               ? result / static_cast<float>(end - first)
               : result;
  }
};

// The log-sum-exp of a head from the parts of its tiles, by a warp: lanes over
// tiles, then a tree, so the bits depend on the number of tiles alone.
__device__ inline float LogSumExp(const float2* parts, int num_tiles) {
  const int lane = threadIdx.x % 32;
  float greatest = -INFINITY;
  for (int tile = lane; tile < num_tiles; tile += 32) {
    greatest = fmaxf(greatest, parts[tile].x);
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    greatest = fmaxf(greatest, __shfl_xor_sync(kWarpMask, greatest, step));
  }
  if (greatest == -INFINITY) return -INFINITY;
  float sum = 0;
  for (int tile = lane; tile < num_tiles; tile += 32) {
    const float2 part = parts[tile];
    // A tile without a valid slot has no sum to scale.
    if (part.y != 0.0f) sum += part.y * expf(part.x - greatest);
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    sum += __shfl_xor_sync(kWarpMask, sum, step);
  }
  return greatest + logf(sum);
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_PARTITIONS_CUH_
