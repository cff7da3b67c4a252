// From a list's scores by summary row to scores of partitions.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_PARTITIONS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_PARTITIONS_CUH_

#include "backend/cuda/device/select/select_cut.cuh"
#include "backend/cuda/device/select/select_row.cuh"

namespace winnow::device {

// Keys that a thread's loads are in flight for together.
constexpr int kKeysAtOnce = 8;

// Rows pooled; -infinity where the partition has none.
__device__ inline float PoolRows(const Selector& selector,
                                 const float* scores,  // f32 [num_rows]
                                 int num_rows, int partition) {
  const int64_t at =
      int64_t{partition} * selector.pool_stride - selector.pool_pad;
  const int64_t most = num_rows;
  const int first = static_cast<int>(min(max(at, int64_t{0}), most));
  const int64_t behind = at + selector.pool_size;
  const int end = static_cast<int>(min(max(behind, int64_t{first}), most));
  if (first == end) return -INFINITY;
  float result = scores[first];
#pragma unroll 4
  for (int row = first + 1; row < end; ++row) {
    const float score = scores[row];
    // Orders as std::max: a NaN that comes first stays.
    result = selector.pool != Reduction::kMax ? result + score
             : result < score                 ? score
                                              : result;
  }
  return selector.pool == Reduction::kMean
             ? result / static_cast<float>(end - first)
             : result;
}

// keys[i] = that of free partition i, by a block; ends with a __syncthreads().
__device__ inline void WriteKeys(const Selector& selector,
                                 const RowBudget& budget,
                                 const float* scores,  // f32 [num_rows]
                                 int num_rows,
                                 uint32_t* keys) {  // u32 [free partitions]
  const int num_free = budget.end_free - budget.first_free;
  if (selector.Pools()) {
    for (int i = threadIdx.x; i < num_free; i += kChooseThreads) {
      keys[i] =
          KeyOf(PoolRows(selector, scores, num_rows, budget.first_free + i));
    }
  } else {
    // A row a partition, as most selectors have it.
    for (int first = threadIdx.x; first < num_free;
         first += kKeysAtOnce * kChooseThreads) {
      float of_rows[kKeysAtOnce];
#pragma unroll
      for (int i = 0; i < kKeysAtOnce; ++i) {
        const int at = first + i * kChooseThreads;
        const int row = budget.first_free + at;
        of_rows[i] = at < num_free && row < num_rows ? scores[row] : -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kKeysAtOnce; ++i) {
        const int at = first + i * kChooseThreads;
        if (at < num_free) keys[at] = KeyOf(of_rows[i]);
      }
    }
  }
  __syncthreads();
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_PARTITIONS_CUH_
