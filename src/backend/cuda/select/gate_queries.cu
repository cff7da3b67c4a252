#include <cooperative_groups.h>

#include <algorithm>

#include "backend/cuda/device/runtime/async_copy.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/gate_rows.cuh"
#include "backend/cuda/device/select/select_row.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/gate_queries.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

using device::kGateRows;
using device::kGateThreads;

// Blocks that share a KV head's inputs.
constexpr int kClusterBlocks = 8;

struct GateQueryTask {
  device::StepRows rows;
  device::Selector selector;
  int selector_index;
  int first_row, num_rows;  // of the wave
  device::GateSide gate;
  const void* q_pre;  // [rows, q_heads, k_dim]
  device::FloatType q_type;
  int64_t q_row_stride, q_head_stride;
  int group_heads;
  const float* cos_sin;  // [rows, 2 * half_dim]
  int64_t cos_sin_stride;
  int half_dim;
  float* queries;  // [wave, kv_heads, k_dim]
  int num_kv_heads;

  // Whether the gate's scores choose for a row of the wave.
  __device__ bool Wants(int wave_row) const {
    if (wave_row >= num_rows) return false;
    const int row = first_row + wave_row;
    return rows.selector[rows.Request(row)] == selector_index &&
           !rows.IsPrompt(row) && !selector.ReadsAll(rows, row) &&
           device::ScoreNeed(selector, rows, row).decides;
  }
};

// A cluster has kGateRows rows of the wave and a KV head, a block a part of the
// inputs: the numbers of the group's q before RoPE times their weights, which
// the first block adds up, normalises and turns. Weights are asked for before
// what is ahead has ended. Grid [kClusterBlocks, KV heads, runs of rows].
__global__ void __launch_bounds__(kGateThreads, 4)
    GateQueryKernel(const __grid_constant__ GateQueryTask task) {
  extern __shared__ float shared[];
  device::LetNextBegin();
  const int first = static_cast<int>(blockIdx.z) * kGateRows;
  unsigned wanted = 0;
  for (int r = 0; r < kGateRows; ++r) {
    if (task.Wants(first + r)) wanted |= 1u << r;
  }
  // The blocks of a cluster agree.
  if (wanted == 0) return device::WaitForPrior();
  const int k_dim = task.gate.k_dim;
  const int head = static_cast<int>(blockIdx.y);
  const int each = (task.gate.num_inputs + kClusterBlocks - 1) / kClusterBlocks;
  const int begin =
      min(static_cast<int>(blockIdx.x) * each, task.gate.num_inputs);
  const int end = min(begin + each, task.gate.num_inputs);
  const int count = end - begin;
  constexpr int kLineNumbers = 32;
  const float* weights =
      task.gate.weights + head * task.gate.head_stride + int64_t{begin} * k_dim;
  for (int i = threadIdx.x * kLineNumbers; i < count * k_dim;
       i += kGateThreads * kLineNumbers) {
    device::LoadIntoL2(weights + i);
  }
  device::WaitForPrior();
  float* numbers = shared;  // [kGateRows, count]
  float* slices = numbers + kGateRows * each;
  for (int i = threadIdx.x; i < kGateRows * count; i += kGateThreads) {
    const int r = i / count, n = begin + i % count;
    const int64_t at =
        (task.first_row + first + r) * task.q_row_stride +
        (head * task.group_heads + n / k_dim) * task.q_head_stride + n % k_dim;
    numbers[i] = (wanted >> r & 1) != 0
                     ? device::LoadFloat(task.q_pre, task.q_type, at)
                     : 0.0f;
  }
  __syncthreads();
  device::ProjectRows(task.gate, head, begin, end, numbers, slices);
  const auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  if (blockIdx.x == 0) {
    for (int i = threadIdx.x; i < kGateRows * k_dim; i += kGateThreads) {
      float sum = slices[i];
      for (unsigned rank = 1; rank < kClusterBlocks; ++rank) {
        sum += cluster.map_shared_rank(slices, rank)[i];
      }
      slices[i] = sum;
    }
    __syncthreads();
    const int r = static_cast<int>(threadIdx.x) / 32;
    if (r < kGateRows && (wanted >> r & 1) != 0) {
      const float* turns =
          task.cos_sin + (task.first_row + first + r) * task.cos_sin_stride;
      float* query = task.queries +
                     (int64_t{first + r} * task.num_kv_heads + head) * k_dim;
      device::FinishGateRow(
          task.gate, slices + r * k_dim, task.half_dim,
          [&](int i) {
            return make_float2(turns[i], turns[task.half_dim + i]);
          },
          [&](int c, float x) { query[c] = x; });
    }
  }
  cluster.sync();  // Or a block would end while its sums are still read.
}

void CheckGate(const LayerSelector& selector, const SelectArgs& args,
               const LayerCache& cache) {
  const int64_t k_dim = cache.format.k_dim;
  const View& q = selector.gate.q;
  CHECK(q.rank == 3 && q.dim(0) == cache.num_kv_heads &&
            q.dim(1) == args.q.dim(1) / cache.num_kv_heads * k_dim &&
            q.dim(2) == k_dim,
        "gate {} q {} kv_heads={} k_dim={}", ToString(q), ToString(args.q),
        cache.num_kv_heads, k_dim);
  CHECK(args.q_pre.shape == args.q.shape && args.q_pre.dtype == args.q.dtype &&
            args.cos_sin.rank == 2 && args.cos_sin.dim(0) == args.q.dim(0),
        "q {} q_pre {} cos_sin {}", ToString(args.q), ToString(args.q_pre),
        ToString(args.cos_sin));
}

}  // namespace

bool HasGate(const LayerSelector& selector) {
  return selector.program != nullptr &&
         selector.program->rows.kind == SummaryRows::Kind::kGate;
}

void EnqueueGateQueries(CudaQueue& queue, const LayerStep& step,
                        const SelectArgs& args, const LayerCache& cache,
                        const SelectWave& wave, size_t index) {
  const LayerSelector& selector = args.selectors[index];
  CheckGate(selector, args, cache);
  GateQueryTask task = {};
  task.rows = DeviceRows(step);
  task.selector = DeviceSelector(selector, cache);
  task.selector_index = static_cast<int>(index);
  task.first_row = wave.first_row;
  task.num_rows = wave.num_rows;
  task.gate = DeviceGate(selector.gate.q, selector.gate.q_norm);
  task.q_pre = args.q_pre.data;
  task.q_type = FloatTypeOf(args.q_pre.dtype);
  task.q_row_stride = args.q_pre.stride[0];
  task.q_head_stride = args.q_pre.stride[1];
  task.group_heads = static_cast<int>(args.q.dim(1)) / cache.num_kv_heads;
  task.cos_sin = args.cos_sin.As<float>();
  task.cos_sin_stride = args.cos_sin.stride[0];
  task.half_dim = static_cast<int>(args.cos_sin.dim(1)) / 2;
  task.queries = wave.gate_queries;
  task.num_kv_heads = cache.num_kv_heads;
  const int k_dim = cache.format.k_dim;
  const int each = (task.gate.num_inputs + kClusterBlocks - 1) / kClusterBlocks;
  const size_t shared_bytes =
      sizeof(float) *
      static_cast<size_t>(kGateRows *
                          (each + device::NumSlices(k_dim) * k_dim));
  CHECK(shared_bytes <= 48 << 10, "group_dim={} k_dim={}: {} bytes",
        task.gate.num_inputs, k_dim, shared_bytes);
  LaunchDependent(
      queue, "Select: gates", GateQueryKernel,
      {.blocks = dim3(
           kClusterBlocks, static_cast<unsigned>(cache.num_kv_heads),
           static_cast<unsigned>((wave.num_rows + kGateRows - 1) / kGateRows)),
       .num_threads = kGateThreads,
       .shared_bytes = static_cast<int>(shared_bytes),
       .cluster_blocks = kClusterBlocks},
      task);
}

}  // namespace winnow
