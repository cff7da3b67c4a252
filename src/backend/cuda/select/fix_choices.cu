#include <algorithm>

#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/device/select/fixed_scores.cuh"
#include "backend/cuda/device/select/select_lanes.cuh"
#include "backend/cuda/device/select/select_mma.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/fix_choices.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

using device::FixTask;

constexpr int kCopyThreads = 128;

struct KeepTask {
  device::StepRows rows;
  device::FixedTable fixed;
  int selector_index;
  int num_kv_heads;
  const uint16_t* q;  // [rows, q_heads, k_dim], in halves of numbers' bytes
  int64_t q_row_halves;
  int group_halves;  // of a KV head's queries
};

// A block has a row of the step: where it is one of the last before its
// request's end, its queries are kept. Grid [rows].
__global__ void __launch_bounds__(kCopyThreads)
    KeepQueriesKernel(const __grid_constant__ KeepTask task) {
  device::LetNextBegin();
  const int row = static_cast<int>(blockIdx.x);
  const int request = task.rows.Request(row);
  const bool is_mine = task.rows.selector[request] == task.selector_index;
  device::WaitForPrior();
  if (!is_mine) return;
  const int position = task.rows.Position(row);
  const int end = task.fixed.End(task.rows, request);
  const int window = task.fixed.window_tokens;
  if (position >= end || position < end - window) return;
  const uint16_t* from = task.q + row * task.q_row_halves;
  for (int head = 0; head < task.num_kv_heads; ++head) {
    auto* to = reinterpret_cast<uint16_t*>(task.fixed.Queries(request, head)) +
               int64_t{position % window} * task.group_halves;
    for (int i = threadIdx.x; i < task.group_halves; i += kCopyThreads) {
      to[i] = from[int64_t{head} * task.group_halves + i];
    }
  }
}

// A block makes every gridDim.x-th of the lists whose end is reached, in the
// order of requests and lists: lengths are known here alone. A list's bits
// depend on its keys and queries, not on who makes it. Grid [blocks].
template <typename Kv, typename Tile>
__global__ void __launch_bounds__(device::kChooseThreads, 1)
    FixKernel(const __grid_constant__ FixTask task) {
  extern __shared__ __align__(16) float shared[];  // scores, then queries
  __shared__ device::CutScratch scratch;
  __shared__ device::ObserveMemory memory;
  device::BeginAfterPrior();
  const device::Selector& selector = task.selector;
  const int num_lists = task.num_kv_heads * selector.fixed.num_lists;
  uint32_t* const keys = task.keys + int64_t{blockIdx.x} * task.capacity;
  float* const sums = task.sums + int64_t{blockIdx.x} * task.capacity;
  const auto num_blocks = static_cast<int>(gridDim.x);
  int before = 0;  // lists of the requests before, modulo num_blocks
  for (int request = 0; request < task.rows.num_requests; ++request) {
    if (task.rows.selector[request] != task.selector_index) continue;
    device::FixPlace place = {};
    place.request = request;
    place.end = selector.fixed.End(task.rows, request);
    const int end_token =
        task.rows.first_position[request] + task.rows.num_tokens[request];
    if (place.end <= task.first_token[request] || place.end > end_token) {
      continue;
    }
    const device::RowBudget budget(selector, place.end, place.end);
    int item = static_cast<int>(blockIdx.x) - before;
    if (item < 0) item += num_blocks;
    for (; item < num_lists; item += num_blocks) {
      place.kv_head = item / selector.fixed.num_lists;
      place.list = item % selector.fixed.num_lists;
      device::FixedScores<Tile> scores(task, place, budget, sums, keys);
      if (budget.num_fixed > 0 && budget.num_open() > 0) {
        if (selector.fixed.kind == device::FixedKind::kObserved) {
          scores.Observe(memory,
                         shared + device::kChooseWarps *
                                      device::kObservedQueries *
                                      device::kTileStride,
                         shared);
        } else {
          scores.template ScoreOutliers<Kv>();
        }
      }
      device::WriteFixed(task, place, budget, keys, scratch);
      __syncthreads();  // Or the next one would overwrite what is still read.
    }
    before = (before + num_lists) % num_blocks;
  }
}

template <typename Kv, typename Tile>
void Launch(CudaQueue& queue, FixTask task) {
  const CudaDevice& device = queue.device();
  const bool observes = task.sums != nullptr;
  const int64_t block_bytes = task.capacity * (observes ? 8 : 4);
  const int64_t fit =
      static_cast<int64_t>(device.workspace_bytes) / block_bytes;
  CHECK(fit > 0, "workspace_bytes={} a list: {} bytes", device.workspace_bytes,
        block_bytes);
  const int64_t num_blocks = std::min<int64_t>(fit, device.num_multiprocessors);
  task.keys = reinterpret_cast<uint32_t*>(device.workspace);
  if (observes) {
    task.sums =
        reinterpret_cast<float*>(task.keys + num_blocks * task.capacity);
  }
  const size_t shared_bytes =
      !observes
          ? 0
          : sizeof(float) * device::kChooseWarps * device::kObservedQueries *
                    device::kTileStride +
                Tile::QueryBytes(device::kObservedQueries, task.pages.k_dim);
  constexpr size_t kMaxSharedBytes = (227 << 10) - 16384;
  CHECK(shared_bytes <= kMaxSharedBytes, "k_dim={}: {} bytes", task.pages.k_dim,
        shared_bytes);
  queue.Keep(cudaFuncSetAttribute(FixKernel<Kv, Tile>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)),
             "Summarize: shared memory for choices");
  LaunchDependent(queue, "Summarize: choices", FixKernel<Kv, Tile>,
                  {.blocks = dim3(static_cast<unsigned>(num_blocks)),
                   .num_threads = device::kChooseThreads,
                   .shared_bytes = static_cast<int>(shared_bytes)},
                  task);
}

// Tensor cores take keys and queries of one 16-bit type; else, and for widths
// that they do not divide, lanes do.
template <typename Kv>
void LaunchByShape(CudaQueue& queue, const FixTask& task, Dtype q_dtype,
                   const LayerCache& cache) {
  if constexpr (sizeof(Kv) == 2) {
    const device::Pages& pages = task.pages;
    constexpr int64_t kBytes = device::kPieceBytes;
    const bool aligns =
        reinterpret_cast<uintptr_t>(pages.layer_blocks) % kBytes == 0 &&
        pages.kv_block_stride_bytes % kBytes == 0 &&
        pages.head_block_bytes % kBytes == 0;
    if (q_dtype == cache.format.k && pages.k_dim % 32 == 0 && aligns) {
      return Launch<Kv, device::MmaTile<Kv, 2>>(queue, task);
    }
  }
  Launch<Kv, device::LaneTile<Kv, 1, 32, 4>>(queue, task);
}

void KeepQueries(CudaQueue& queue, const LayerStep& step,
                 const SummarizeArgs& args, const LayerCache& cache,
                 const FixTask& task, const FixedLayout& layout) {
  if (step.num_rows == 0) return;
  const int64_t k_dim = cache.format.k_dim;
  CHECK(!args.q.empty() && args.q.dtype == layout.q_dtype &&
            args.q.stride[1] == k_dim && args.q.stride[2] == 1,
        "q {} dtype={}", ToString(args.q), DtypeName(layout.q_dtype));
  const int64_t halves = DtypeBytes(layout.q_dtype) / 2;
  KeepTask keep = {};
  keep.rows = task.rows;
  keep.fixed = task.selector.fixed;
  keep.selector_index = task.selector_index;
  keep.num_kv_heads = cache.num_kv_heads;
  keep.q = reinterpret_cast<const uint16_t*>(args.q.data);
  keep.q_row_halves = args.q.stride[0] * halves;
  keep.group_halves = static_cast<int>(layout.group_heads * k_dim * halves);
  LaunchDependent(queue, "Summarize: queries", KeepQueriesKernel,
                  {.blocks = dim3(static_cast<unsigned>(step.num_rows)),
                   .num_threads = kCopyThreads},
                  keep);
}

FixTask MakeTask(const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache, const LayerSelector& selector) {
  const SelectProgram& program = *selector.program;
  FixTask task = {};
  task.rows = DeviceRows(step);
  task.pages = DevicePages(cache);
  task.selector = DeviceSelector(selector, cache);
  SelectProgram keys;
  keys.rows = {SummaryRows::Kind::kKeys, 1, 1, cache.format.k};
  task.keys_as_rows = DeviceSummaries(keys, {}, cache);
  task.first_token = args.first_token.As<int32_t>();
  task.num_kv_heads = cache.num_kv_heads;
  task.q_type = FloatTypeOf(selector.fixed.layout.q_dtype);
  task.rows_are_float8 = program.rows.dtype == Dtype::kFloat8E4M3;
  if (!task.rows_are_float8) task.row_type = FloatTypeOf(program.rows.dtype);
  task.scale = args.scale;
  task.pool_size = program.fixed.pool.size;
  task.pool_pad = program.fixed.pool.pad;
  task.pools_mean = program.fixed.pool.reduction == Reduction::kMean;
  task.capacity = int64_t{cache.max_pages} * kPageTokens / program.block_tokens;
  return task;
}

}  // namespace

void EnqueueFixedChoices(CudaQueue& queue, const LayerStep& step,
                         const SummarizeArgs& args, const LayerCache& cache) {
  for (size_t i = 0; i < args.selectors.size(); ++i) {
    const LayerSelector& selector = args.selectors[i];
    if (selector.program == nullptr ||
        selector.program->fixed.kind == FixedChoice::Kind::kNone) {
      continue;
    }
    CheckProgram(*selector.program);
    FixTask task = MakeTask(step, args, cache, selector);
    task.selector_index = static_cast<int>(i);
    if (selector.program->fixed.kind == FixedChoice::Kind::kObserved) {
      KeepQueries(queue, step, args, cache, task, selector.fixed.layout);
      // Where the sums stand is said with the blocks.
      task.sums = reinterpret_cast<float*>(queue.device().workspace);
    }
    WithCudaFloat(cache.format.k, [&](auto element) {
      LaunchByShape<decltype(element)>(queue, task,
                                       selector.fixed.layout.q_dtype, cache);
    });
  }
}

}  // namespace winnow
