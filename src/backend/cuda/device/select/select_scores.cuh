// Scores under way from the kernel that computes them to the one that chooses.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_SCORES_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_SCORES_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace winnow::device {

// Summary rows whose scores one warp computes: also the grain of a log-sum-exp,
// so that its bits depend on the row's context alone.
constexpr int kTileSlots = 32;

// The scores of a wave of rows, in workspace. A plane is one head's scores, or
// the sums of one KV head's group (Selector::SumsGroups).
struct ScoreMemory {
  float* scores;          // [wave, planes, rows_capacity]
  float2* partials;       // [wave, q_heads, tiles_capacity]: of exp(scale *
                          // score), the greatest exponent and the sum
  uint32_t* keys;         // [wave, lists, keys_capacity]; null: they fit
                          // shared memory
  uint32_t* masks;        // [wave, lists, pages_capacity], where clusters
                          // choose; null: they fit shared memory
  int64_t scores_stride;  // of a row of the step, in elements
  int64_t partials_stride;
  int64_t keys_stride;
  int64_t masks_stride;
  int rows_capacity;
  int tiles_capacity;
  int keys_capacity;
  int pages_capacity;

  __device__ float* Plane(int wave_row, int plane) const {
    return scores + wave_row * scores_stride + int64_t{plane} * rows_capacity;
  }
  __device__ float2* Partials(int wave_row, int head) const {
    return partials + wave_row * partials_stride +
           int64_t{head} * tiles_capacity;
  }
  __device__ uint32_t* Keys(int wave_row, int list) const {
    return keys + wave_row * keys_stride + int64_t{list} * keys_capacity;
  }
  __device__ uint32_t* Masks(int wave_row, int list) const {
    return masks + wave_row * masks_stride + int64_t{list} * pages_capacity;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_SCORES_CUH_
