#include <algorithm>

#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/select_tile.cuh"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/gate_queries.h"
#include "backend/cuda/select/select_reduce.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
// Planes whose log-sum-exp a block keeps: a layer's q heads.
constexpr int kMaxPlanes = 256;
// Planes that a thread loads before it needs the first.
constexpr int kPlanesAtOnce = 8;
constexpr int kBlocksAMultiprocessor = 4;

struct ReduceTask {
  device::StepRows rows;
  device::Selector selector;
  device::ScoreMemory memory;
  int selector_index;
  int first_row;   // of the wave
  int num_planes;  // of a list
  int num_heads;   // of a list
  float scale;
};

// The log-sum-exp of a head from the parts of its tiles, and of `other`
// (-infinity: there is none), by a warp: lanes over tiles, then a tree, so the
// bits depend on the number of tiles alone.
__device__ float LogSumExp(const float2* parts, int num_tiles, float other) {
  const int lane = threadIdx.x % 32;
  float greatest = other;
#pragma unroll 4
  for (int tile = lane; tile < num_tiles; tile += 32) {
    greatest = fmaxf(greatest, parts[tile].x);
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    greatest =
        fmaxf(greatest, __shfl_xor_sync(device::kAllLanes, greatest, step));
  }
  if (greatest == -INFINITY) return -INFINITY;
  float sum = lane == 0 && other != -INFINITY ? expf(other - greatest) : 0.0f;
#pragma unroll 4
  for (int tile = lane; tile < num_tiles; tile += 32) {
    const float2 part = parts[tile];
    // A tile without a row has no sum to scale.
    if (part.y != 0.0f) sum += part.y * expf(part.x - greatest);
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    sum += __shfl_xor_sync(device::kAllLanes, sum, step);
  }
  return greatest + logf(sum);
}

// Each plane's log-sum-exp, a warp a plane.
__device__ void NormalizePlanes(const ReduceTask& task, int wave_row, int list,
                                int scored_tokens,
                                float* lse) {  // [num_planes]
  const device::SummaryLevel& level =
      task.selector.summaries.levels[task.selector.NormalizingLevel()];
  const int num_visible = level.NumVisible(scored_tokens);
  const int num_slots = num_visible == 0 ? 0 : num_visible + level.lead;
  const int num_tiles =
      (num_slots + device::kTileSlots - 1) / device::kTileSlots;
  // The own partition, where it has no row yet and is in the softmax.
  const bool has_open = task.selector.open_scores_zero &&
                        scored_tokens % task.selector.block_tokens != 0;
  for (int plane = threadIdx.x / 32; plane < task.num_planes; plane += kWarps) {
    const float of_plane = LogSumExp(
        task.memory.Partials(wave_row, list * task.num_planes + plane),
        num_tiles, has_open ? 0.0f : -INFINITY);
    if (threadIdx.x % 32 == 0) lse[plane] = of_plane;
  }
}

// A summary row's score: each plane's mapped, then reduced in the planes'
// order. exp(scale * score - lse), or 0 where nothing normalises.
__device__ float ReduceRow(const ReduceTask& task, const float* planes,
                           const float* lse) {
  const device::Selector& selector = task.selector;
  float result = 0;
  for (int first = 0; first < task.num_planes; first += kPlanesAtOnce) {
    float scores[kPlanesAtOnce];
#pragma unroll
    for (int i = 0; i < kPlanesAtOnce; ++i) {
      if (first + i < task.num_planes) {
        scores[i] = planes[int64_t{first + i} * task.memory.rows_capacity];
      }
    }
#pragma unroll
    for (int i = 0; i < kPlanesAtOnce; ++i) {
      if (first + i >= task.num_planes) break;
      float score = scores[i];
      if (selector.map != device::HeadMap::kNone) {
        const float of_plane = lse[first + i];
        score =
            of_plane == -INFINITY ? 0.0f : expf(score * task.scale - of_plane);
      }
      result = first + i == 0 ? score : selector.Reduce(result, score);
    }
  }
  return selector.FinishRow(result, task.num_heads);
}

// A block has some summary rows of a (row, list), threads over rows: maps and
// reduces the list's planes into its first. Bytes: planes x 4 a row; flops: an
// exponential a number. Grid [blocks, lists, rows of the wave].
__global__ void __launch_bounds__(kThreads, 4)
    ReduceKernel(const __grid_constant__ ReduceTask task) {
  __shared__ float lse[kMaxPlanes];
  device::BeginAfterPrior();
  const int wave_row = blockIdx.z, list = blockIdx.y;
  const int row = task.first_row + wave_row;
  if (task.rows.selector[task.rows.Request(row)] != task.selector_index) return;
  const device::ScoreNeed need(task.selector, task.rows, row);
  const int num_visible =
      task.selector.summaries.levels[0].NumVisible(need.scored_tokens);
  if (static_cast<int>(blockIdx.x) * kThreads >= num_visible) return;
  if (task.selector.ReadsAll(task.rows, row) || !need.decides) return;
  if (task.selector.map != device::HeadMap::kNone) {
    NormalizePlanes(task, wave_row, list, need.scored_tokens, lse);
    __syncthreads();
  }
  float* planes = task.memory.Plane(wave_row, list * task.num_planes);
  for (int j = blockIdx.x * kThreads + threadIdx.x; j < num_visible;
       j += gridDim.x * kThreads) {
    planes[j] = ReduceRow(task, planes + j, lse);
  }
}

}  // namespace

void EnqueueReduce(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave, size_t selector) {
  auto num_q_heads = static_cast<int>(args.q.dim(1));
  if (HasGate(args.selectors[selector])) num_q_heads = cache.num_kv_heads;
  CHECK(num_q_heads <= kMaxPlanes, "q_heads={} limit={}", num_q_heads,
        kMaxPlanes);
  ReduceTask task = {};
  task.rows = DeviceRows(step);
  task.selector = DeviceSelector(args.selectors[selector], cache);
  task.memory = wave.memory;
  task.selector_index = static_cast<int>(selector);
  task.first_row = wave.first_row;
  const int num_lists =
      NumChoices(*args.selectors[selector].program, num_q_heads, cache);
  task.num_heads = num_q_heads / num_lists;
  task.num_planes = task.selector.SumsGroups() ? cache.num_kv_heads / num_lists
                                               : task.num_heads;
  task.scale = args.scale;
  const int64_t lines = int64_t{num_lists} * wave.num_rows;
  const int64_t wanted = int64_t{kBlocksAMultiprocessor} *
                         queue.device().num_multiprocessors / lines;
  const int64_t most = (wave.memory.rows_capacity + kThreads - 1) / kThreads;
  if (most == 0) return;
  const dim3 grid(static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, most)),
                  static_cast<unsigned>(num_lists),
                  static_cast<unsigned>(wave.num_rows));
  LaunchDependent(queue, "Select: reduce", ReduceKernel,
                  {.blocks = grid, .num_threads = kThreads}, task);
}

}  // namespace winnow
