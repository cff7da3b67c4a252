// Prefill rows whose keys several blocks share: what each leaves, and the
// merge.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_PARTIALS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_PARTIALS_CUH_

#include "backend/cuda/device/attend/prompt_memory.cuh"
#include "backend/cuda/device/attend/prompt_softmax.cuh"

namespace winnow::device {

// What one item leaves: of each row of its tile the values, not yet divided,
// and the greatest score and the weights' sum.
template <int kHeadDim>
class PromptPartials {
  static constexpr int kRows = PromptShape<kHeadDim>::kRows;

 public:
  static constexpr int kFloats = kRows * (kHeadDim + 2);

  __device__ PromptPartials(float* partials, int item)
      : values_(partials + int64_t{item} * kFloats) {}

  __device__ float* Values(int row) const { return values_ + row * kHeadDim; }
  // (greatest score, sum)
  __device__ float2* State(int row) const {
    return reinterpret_cast<float2*>(values_ + kRows * kHeadDim) + row;
  }

 private:
  float* values_;  // [rows, kHeadDim], then [rows, 2]
};

// Merges the parts of one row of a tile in ascending order of their keys, by
// the lanes of a warp. tile: all its keys; its parts are items from first_item
// on. Bytes: 4 x kHeadDim a part, from the L2 cache.
template <int kHeadDim>
__device__ void MergePrefillRow(const PromptArgs& args, const PromptTile& tile,
                                int first_item, int row) {
  const int lane = threadIdx.x % 32;
  const auto part = [&](int p) {
    return PromptPartials<kHeadDim>(args.partials, first_item + p);
  };
  float maximum = NoKey();
  for (int p = 0; p < tile.num_key_parts; ++p) {
    maximum = fmaxf(maximum, part(p).State(row)->x);
  }
  const float log2_scale = args.scale * 1.44269504f;
  float sum = 0;
  float values[kHeadDim / 32] = {};
  for (int p = 0; p < tile.num_key_parts; ++p) {
    const float2 state = *part(p).State(row);
    // A part of which the row sees nothing: minus infinity, and zeros.
    const float weight = PowerOfTwo((state.x - maximum) * log2_scale);
    sum = __fmaf_rn(state.y, weight, sum);
#pragma unroll
    for (int i = 0; i < kHeadDim / 32; ++i) {
      values[i] =
          __fmaf_rn(part(p).Values(row)[32 * i + lane], weight, values[i]);
    }
  }
  const int64_t step_row = tile.first_row + row / args.group_heads;
  const int head = tile.kv_head * args.group_heads + row % args.group_heads;
  __nv_bfloat16* to =
      args.out + step_row * args.out_row_stride + head * args.out_head_stride;
#pragma unroll
  for (int i = 0; i < kHeadDim / 32; ++i) {
    to[32 * i + lane] = __float2bfloat16_rn(values[i] / sum);
  }
  if (args.lse != nullptr && lane == 0) {
    args.lse[step_row * args.lse_stride + head] =
        __fmaf_rn(maximum, args.scale, logf(sum));
  }
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_PARTIALS_CUH_
