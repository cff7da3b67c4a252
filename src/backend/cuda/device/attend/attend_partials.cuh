// What decode attention is asked for, and where its blocks leave states that
// others merge.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_PARTIALS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_PARTIALS_CUH_

#include <cuda_bf16.h>

#include "backend/cuda/device/attend/attend_state.cuh"
#include "backend/cuda/device/attend/attend_tasks.cuh"
#include "backend/cuda/device/runtime/element.cuh"

namespace winnow::device {

// A state in memory: [kDim] values, maximum, sum, the unit behind the last that
// is in it, and a number that nobody reads.
template <int kDim>
inline constexpr int kStateFloats = kDim + 4;

struct UnitsArguments {
  AttendTasks tasks;
  Pages pages;
  const __nv_bfloat16* q;  // [rows, q_heads, dim]
  int64_t q_row_stride, q_head_stride;
  void* out;  // [rows, q_heads, dim]
  FloatType out_type;
  int64_t out_row_stride, out_head_stride;
  float* lse;  // [rows, q_heads], or null
  int64_t lse_stride;
  float scale_log2;  // times log2 of e
  // States of a group, as far as one block took it from its first unit on;
  // those of the units that followed. `rows` from tasks.first_row on.
  float* groups;  // [rows, q_heads, max_groups, state]
  float* units;   // [max_units, group_heads, state], by flat number
  // By task, units done of each group and, last, groups done. Zero where
  // nobody counts: whoever completes a count takes it back.
  int32_t* tickets;  // [rows, q_heads, max_groups + 1]
  int max_groups, max_units;
  const std::byte* ahead;  // to be brought into L2, or null
  int ahead_bytes;

  __device__ int64_t Lane(int row, int head) const {
    return static_cast<int64_t>(row - tasks.first_row) * tasks.lists.num_heads +
           head;
  }
  __device__ int32_t* Tickets(const AttendTask& task) const {
    return tickets + Lane(task.row, task.index) * (max_groups + 1);
  }
  template <int kDim>
  __device__ float* GroupState(int row, int head, int group) const {
    return groups + (Lane(row, head) * max_groups + group) * kStateFloats<kDim>;
  }
  // `head` counts from the task's first.
  template <int kDim>
  __device__ float* UnitState(int flat, int head) const {
    return units + (static_cast<int64_t>(flat) * tasks.group_heads + head) *
                       kStateFloats<kDim>;
  }

  __device__ void WriteOut(int row, int head, int channel, float value) const {
    const int64_t at = row * out_row_stride + head * out_head_stride + channel;
    // Of a part that is merged with others, in float32.
    if (out_type == FloatType::kFloat32) {
      static_cast<float*>(out)[at] = value;
    } else {
      static_cast<__nv_bfloat16*>(out)[at] = __float2bfloat16_rn(value);
    }
  }
  __device__ void WriteLse(int row, int head, float maximum, float sum) const {
    if (lse == nullptr) return;
    constexpr float kLogOf2 = 0.693147180559945f;
    lse[row * lse_stride + head] = (maximum + log2f(sum)) * kLogOf2;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_PARTIALS_CUH_
