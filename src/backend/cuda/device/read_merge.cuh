// Merges the states that blocks have left of one row and q head.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_READ_MERGE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_READ_MERGE_CUH_

#include "backend/cuda/device/read_partials.cuh"

namespace winnow::device {

// A block of kMergeThreads folds this many groups at a time.
inline constexpr int kMergeGroups = 32;
inline constexpr int kMergeThreads = 256;

template <int kDim>
struct MergeMemory {
  float states[kMergeGroups][kStateFloats<kDim>];
};

// One (row, q head) of a task whose units were not all in one run.
template <int kDim>
class HeadMerger {
 public:
  // A lane's channels are lane + 32 i.
  using WarpState = ReadState<kDim / 32>;

  __device__ HeadMerger(const UnitsArguments& args, const ReadTask& task,
                        int head, MergeMemory<kDim>& memory)
      : args_(args), task_(task), head_(head), memory_(memory) {}

  // Groups by warps, side by side; then a channel a thread, groups in order.
  // All threads call it alike; those below kDim have a state.
  __device__ ReadState<1> Merge() const {
    const int thread = static_cast<int>(threadIdx.x);
    const int end_group =
        (task_.end_unit + kReadGroupUnits - 1) / kReadGroupUnits;
    ReadState<1> state;
    for (int first = task_.first_unit / kReadGroupUnits; first < end_group;
         first += kMergeGroups) {
      const int count = min(kMergeGroups, end_group - first);
      for (int i = thread / 32; i < count; i += kMergeThreads / 32) {
        Keep(Fold(first + i), memory_.states[i]);
      }
      __syncthreads();
      for (int i = 0; i < count && thread < kDim; ++i) {
        const float* group = memory_.states[i];
        ReadState<1> later;
        later.maximum = group[kDim];
        later.sum = group[kDim + 1];
        later.values[0] = group[thread];
        state.Merge(later);
      }
      __syncthreads();
    }
    return state;
  }

 private:
  static __device__ WarpState Load(const float* from) {
    WarpState state;
    state.maximum = from[kDim];
    state.sum = from[kDim + 1];
#pragma unroll
    for (int i = 0; i < kDim / 32; ++i) {
      state.values[i] = from[static_cast<int>(threadIdx.x) % 32 + 32 * i];
    }
    return state;
  }
  static __device__ void Keep(const WarpState& state, float* to) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kDim / 32; ++i) to[lane + 32 * i] = state.values[i];
    if (lane != 0) return;
    to[kDim] = state.maximum;
    to[kDim + 1] = state.sum;
  }

  // A group: what the block with its first unit made, then unit after unit.
  __device__ WarpState Fold(int group) const {
    constexpr int kAtOnce = 8;  // loads under way together
    const float* begun =
        args_.template GroupState<kDim>(task_.row, head_, group);
    WarpState state = Load(begun);
    int unit = __float_as_int(begun[kDim + 2]);
    const int end = min((group + 1) * kReadGroupUnits, task_.end_unit);
    const int base = args_.Base(task_) - task_.first_unit;
    for (; unit < end; unit += kAtOnce) {
      WarpState units[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (unit + i >= end) continue;
        units[i] = Load(args_.template UnitState<kDim>(
            base + unit + i, head_ - task_.first_head));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) state.Merge(units[i]);
    }
    return state;
  }

  const UnitsArguments& args_;
  const ReadTask& task_;
  const int head_;
  MergeMemory<kDim>& memory_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_READ_MERGE_CUH_
