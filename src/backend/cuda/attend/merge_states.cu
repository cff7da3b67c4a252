#include <algorithm>

#include "backend/cuda/attend/merge_states.h"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxParts = 4;

struct Part {
  const float* out;  // [rows, q_heads, v_dim]
  const float* lse;  // [rows, q_heads]
  int64_t row_stride, head_stride, lse_stride;
};

struct MergeTask {
  device::StepRows rows;
  Part parts[kMaxParts];
  int num_parts;
  int first_row;
  bool prompt, generated;  // which rows are merged
  int v_dim;
  void* out;  // [rows, q_heads, v_dim]
  device::FloatType out_type;
  int64_t row_stride, head_stride;
};

// A block has a row and q head, threads over channels. What one part alone has
// is its own to the bit. Grid [q heads, rows].
__global__ void __launch_bounds__(kThreads)
    MergeStatesKernel(const __grid_constant__ MergeTask task) {
  const int head = static_cast<int>(blockIdx.x);
  const int row = task.first_row + static_cast<int>(blockIdx.y);
  device::BeginAfterPrior();
  if (!(task.rows.IsPrompt(row) ? task.prompt : task.generated)) return;
  float lses[kMaxParts];
  float greatest = -INFINITY;
  int num_with_keys = 0;
#pragma unroll
  for (int i = 0; i < kMaxParts; ++i) {
    lses[i] = -INFINITY;
    if (i >= task.num_parts) continue;
    lses[i] = task.parts[i].lse[row * task.parts[i].lse_stride + head];
    // Orders as std::max: a NaN takes part all the same.
    greatest = greatest < lses[i] ? lses[i] : greatest;
    num_with_keys += lses[i] != -INFINITY ? 1 : 0;
  }
  if (num_with_keys == 0) __trap();  // The row reads nothing.
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kMaxParts; ++i) {
    if (i < task.num_parts) sum += expf(lses[i] - greatest);
  }
  for (int c = threadIdx.x; c < task.v_dim; c += kThreads) {
    float value = 0;
#pragma unroll
    for (int i = 0; i < kMaxParts; ++i) {
      if (i >= task.num_parts || lses[i] == -INFINITY) continue;
      const Part& part = task.parts[i];
      const float of_part =
          part.out[row * part.row_stride + head * part.head_stride + c];
      value = num_with_keys == 1
                  ? of_part
                  : value + expf(lses[i] - greatest) / sum * of_part;
    }
    device::StoreFloat(task.out, task.out_type,
                       row * task.row_stride + head * task.head_stride + c,
                       value);
  }
}

}  // namespace

void EnqueueMergeStates(CudaQueue& queue, const LayerStep& step,
                        const MergeStatesArgs& args) {
  if (args.num_rows == 0) return;
  CheckMergeStates(step, args);
  CHECK(args.outs.size() <= kMaxParts, "parts={} limit={}", args.outs.size(),
        kMaxParts);
  MergeTask task = {};
  task.rows = DeviceRows(step);
  task.num_parts = static_cast<int>(args.outs.size());
  for (size_t i = 0; i < args.outs.size(); ++i) {
    task.parts[i] = {.out = args.outs[i].As<float>(),
                     .lse = args.lses[i].As<float>(),
                     .row_stride = args.outs[i].stride[0],
                     .head_stride = args.outs[i].stride[1],
                     .lse_stride = args.lses[i].stride[0]};
  }
  task.first_row = args.first_row;
  task.prompt = step.has_prefill_rows;
  task.generated = step.has_decode_rows;
  task.v_dim = static_cast<int>(args.out.dim(2));
  task.out = args.out.data;
  task.out_type = FloatTypeOf(args.out.dtype);
  task.row_stride = args.out.stride[0];
  task.head_stride = args.out.stride[1];
  // A grid's second dimension ends at 65,535.
  constexpr int kMaxRows = 32768;
  const int end = args.first_row + args.num_rows;
  for (; task.first_row < end; task.first_row += kMaxRows) {
    const dim3 grid(
        static_cast<unsigned>(args.out.dim(1)),
        static_cast<unsigned>(std::min(end - task.first_row, kMaxRows)));
    LaunchDependent(queue, "MergeStates", MergeStatesKernel,
                    {.blocks = grid, .num_threads = kThreads}, task);
  }
}

}  // namespace winnow
