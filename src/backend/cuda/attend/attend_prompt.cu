#include <algorithm>

#include "backend/cuda/attend/attend_prompt.h"
#include "backend/cuda/device/attend/prompt_attend.cuh"
#include "backend/cuda/device/attend/prompt_load.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/runtime/tensor_map.h"

namespace winnow {
namespace {

using device::kThreadsPerWarpgroup;
using device::PromptArgs;
using device::PromptKeys;
using device::PromptMemory;
using device::PromptPartials;
using device::PromptPlan;
using device::PromptShape;

constexpr int kPlanThreads = 256;
constexpr int kMaxGroupHeads = 64;
// Of the L2 cache, for the keys and values of the heads that are worked on.
constexpr int64_t kCachedBytes = int64_t{48} << 20;
constexpr int kMergeThreads = 256;
// Items a multiprocessor from which on to cut keys is not worth looking at.
constexpr int64_t kManyItems = 2;

static_assert(device::kTokensPerPage == kPageTokens);
static_assert(device::kKeysPerTile == kPromptTileTokens);

// Cuts a step's prefill rows into tiles. One block; a thread a request, which
// finds by itself how many tiles stand before its own: those of requests that
// end later. Reads requests^2 numbers, from the L1 cache.
__global__ void __launch_bounds__(kPlanThreads)
    PlanPromptTiles(const PromptArgs args, int token_bytes) {
  __shared__ int num_tiles, num_runs;
  __shared__ unsigned long long num_bytes;
  if (threadIdx.x == 0) {
    num_tiles = num_runs = 0;
    num_bytes = 0;
  }
  __syncthreads();
  const device::PrefillRows& rows = args.rows;
  const int num_requests = rows.step.num_requests;
  for (int request = threadIdx.x; request < num_requests;
       request += kPlanThreads) {
    const int own = rows.NumTiles(request, args.tokens_per_tile);
    if (own == 0) continue;
    const int end = rows.EndPosition(request);
    int rank = 0, first_tile = 0;
    for (int other = 0; other < num_requests; ++other) {
      const int tiles = rows.NumTiles(other, args.tokens_per_tile);
      if (tiles == 0) continue;
      const int other_end = rows.EndPosition(other);
      if (other_end < end || (other_end == end && other >= request)) continue;
      ++rank;
      first_tile += tiles;
    }
    args.plan->Runs()[rank] = {first_tile, request};
    const int first_seen =
        rows.step.FirstVisible(rows.step.first_position[request]);
    atomicAdd(&num_tiles, own);
    atomicAdd(&num_runs, 1);
    atomicAdd(&num_bytes,
              static_cast<unsigned long long>(end - first_seen) * token_bytes);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned long long heads = kCachedBytes / max(num_bytes, 1ull);
    *args.plan = {
        0, num_tiles, num_runs,
        static_cast<int>(min(max(heads, 1ull), static_cast<unsigned long long>(
                                                   args.num_kv_heads))),
        args.partials == nullptr
            ? 1
            : device::ChooseKeyParts(num_tiles * args.num_kv_heads,
                                     args.num_multiprocessors, args.max_items)};
  }
}

// Softmax attention of the plan's tiles, over all keys, parts of them, or the
// lists' picks. A block takes a tile (128 or 192 rows: tokens of one request
// times q heads of one KV head) after the other; its first warpgroup fetches,
// the others compute 64 rows each. Per tile and 128 keys: 512 x head_dim bytes,
// from the L2 cache where blocks share a head, and 65,536 x head_dim flops.
template <int kHeadDim, PromptKeys kKeys>
__global__ void __launch_bounds__(PromptShape<kHeadDim>::kThreads, 1)
    AttendPromptTiles(const __grid_constant__ CUtensorMap q_map,
                      const __grid_constant__ CUtensorMap kv_map,
                      const __grid_constant__ PromptArgs args) {
  extern __shared__ uint8_t shared[];
  // Swizzles repeat every 1,024 bytes of the address.
  const uint32_t skipped = -device::SharedAddress(shared) & 1023;
  auto& memory = *reinterpret_cast<PromptMemory<kHeadDim>*>(shared + skipped);
  if (threadIdx.x == 0) memory.Init();
  __syncthreads();
  const int warpgroup =
      __shfl_sync(0xffffffff, threadIdx.x / kThreadsPerWarpgroup, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(
        PromptShape<kHeadDim>::kLoadRegisters));
    if (threadIdx.x < 32) {
      device::PromptLoad<kHeadDim, kKeys == PromptKeys::kPicked>(q_map, kv_map,
                                                                 args, memory)
          .Run();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(
        PromptShape<kHeadDim>::kComputeRegisters));
    device::PromptAttend<kHeadDim, kKeys>(args, memory, warpgroup - 1).Run();
  }
}

// Merges the parts of tiles whose keys were cut. A warp a row and q head.
template <int kHeadDim>
__global__ void __launch_bounds__(kMergeThreads)
    MergePromptParts(const __grid_constant__ PromptArgs args) {
  PromptPlan& plan = *args.plan;
  if (plan.num_key_parts == 1) return;
  constexpr int kRows = PromptShape<kHeadDim>::kRows;
  constexpr int kWarps = kMergeThreads / 32;
  const int num_rows = plan.num_tiles * args.num_kv_heads * kRows;
  for (int i = blockIdx.x * kWarps + threadIdx.x / 32; i < num_rows;
       i += gridDim.x * kWarps) {
    const int row = i % kRows;
    const device::PromptTile tile = device::PromptTileAndHead(
        plan, args.rows, args.num_kv_heads, i / kRows, args.tokens_per_tile);
    if (tile.num_key_parts == 1) continue;
    if (row >= tile.num_tokens * args.group_heads) continue;
    device::MergePrefillRow<kHeadDim>(args, tile,
                                      i / kRows * plan.num_key_parts, row);
  }
}

// Whether a view's rows can be copied and written 16 bytes at a time.
bool Aligned(const View& view) {
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 &&
         view.stride[0] % 8 == 0 && view.stride[1] % 8 == 0;
}

PromptArgs MakePromptArgs(const CudaQueue& queue, const LayerStep& step,
                          const AttendArgs& args, const LayerCache& cache) {
  PromptArgs prompt = {};
  prompt.rows = {DeviceRows(step), 0, step.num_rows};
  if (args.sources[0].kind == AttendSource::Kind::kPicks) {
    const PickLists& lists = args.sources[0].picks;
    CHECK(lists.first_row >= 0 &&
              lists.first_row + lists.num_rows() <= step.num_rows,
          "first_row={} num_picks {} rows={}", lists.first_row,
          ToString(lists.num_picks), step.num_rows);
    prompt.rows.first_row = lists.first_row;
    prompt.rows.end_row = lists.first_row + lists.num_rows();
    prompt.picks = lists.picks.As<uint32_t>();
    prompt.picks_row_stride = lists.picks.stride[0];
    prompt.picks_list_stride = lists.picks.stride[1];
    prompt.num_picks = lists.num_picks.As<int32_t>();
    prompt.num_picks_stride = lists.num_picks.stride[0];
    prompt.num_lists = lists.num_lists.As<int32_t>();
  }
  prompt.first_page = cache.page_table.first.As<int32_t>();
  prompt.page_table = cache.page_table.entries.As<uint32_t>();
  prompt.plan = reinterpret_cast<PromptPlan*>(queue.device().workspace);
  prompt.out = CudaData<__nv_bfloat16>(args.out);
  prompt.out_row_stride = args.out.stride[0];
  prompt.out_head_stride = args.out.stride[1];
  if (!args.lse.empty()) {
    prompt.lse = args.lse.As<float>();
    prompt.lse_stride = args.lse.stride[0];
  }
  prompt.num_kv_heads = cache.num_kv_heads;
  prompt.group_heads = static_cast<int>(args.q.dim(1)) / cache.num_kv_heads;
  prompt.scale = args.scale;
  return prompt;
}

size_t PlanBytes(const LayerStep& step) {
  constexpr size_t kAlignBytes = 256;
  const size_t used =
      sizeof(PromptPlan) +
      sizeof(device::PromptRun) * static_cast<size_t>(step.num_requests);
  return (used + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
}

// Where keys may be cut: all the workspace behind the plan.
template <int kHeadDim>
void GivePartials(const CudaDevice& device, size_t plan_bytes,
                  PromptArgs& prompt) {
  constexpr size_t kItemBytes =
      sizeof(float) * PromptPartials<kHeadDim>::kFloats;
  prompt.partials = reinterpret_cast<float*>(device.workspace + plan_bytes);
  prompt.max_items =
      static_cast<int>((device.workspace_bytes - plan_bytes) / kItemBytes);
  prompt.num_multiprocessors = device.num_multiprocessors;
}

template <int kHeadDim, PromptKeys kKeys>
void LaunchTiles(CudaQueue& queue, const PromptArgs& prompt,
                 const AttendArgs& args, const LayerCache& cache,
                 unsigned num_blocks) {
  using Shape = PromptShape<kHeadDim>;
  constexpr int kSharedBytes = sizeof(PromptMemory<kHeadDim>) + 1024;
  const CUtensorMap q_map = MapRows(queue, args.q,
                                    {.chunk = Shape::kChunk,
                                     .heads = prompt.group_heads,
                                     .rows = prompt.tokens_per_tile});
  const CUtensorMap kv_map = MapPages(queue, cache, Shape::kChunk);
  const auto kernel = AttendPromptTiles<kHeadDim, kKeys>;
  queue.Keep(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kSharedBytes),
      "Attend: shared memory for prefill rows");
  kernel<<<num_blocks, Shape::kThreads, kSharedBytes, queue.stream()>>>(
      q_map, kv_map, prompt);
  queue.KeepLaunch("Attend: prefill rows");
}

template <int kHeadDim>
void Launch(CudaQueue& queue, PromptArgs prompt, const LayerStep& step,
            const AttendArgs& args, const LayerCache& cache) {
  using Shape = PromptShape<kHeadDim>;
  const CudaDevice& device = queue.device();
  prompt.tokens_per_tile = Shape::kRows / prompt.group_heads;
  const device::PrefillRows& rows = prompt.rows;
  const int64_t full_tiles =
      (rows.end_row - rows.first_row) / prompt.tokens_per_tile;
  const int64_t most_items =
      (full_tiles + rows.step.num_requests) * prompt.num_kv_heads;
  const bool has_picks = args.sources[0].kind == AttendSource::Kind::kPicks;
  // Of the fewest tiles that these may be: those of one request.
  const bool in_parts = !args.batch_invariant && !has_picks &&
                        full_tiles * prompt.num_kv_heads <
                            kManyItems * int64_t{device.num_multiprocessors};
  if (in_parts) GivePartials<kHeadDim>(device, PlanBytes(step), prompt);
  PlanPromptTiles<<<1, kPlanThreads, 0, queue.stream()>>>(prompt, 4 * kHeadDim);
  queue.KeepLaunch("Attend: planning prefill rows");
  if (in_parts) {
    const auto num_blocks = static_cast<unsigned>(device.num_multiprocessors);
    LaunchTiles<kHeadDim, PromptKeys::kAllInParts>(queue, prompt, args, cache,
                                                   num_blocks);
    MergePromptParts<kHeadDim>
        <<<2 * num_blocks, kMergeThreads, 0, queue.stream()>>>(prompt);
    queue.KeepLaunch("Attend: merging prefill rows");
    return;
  }
  const auto num_blocks = static_cast<unsigned>(
      std::min<int64_t>(most_items, device.num_multiprocessors));
  if (has_picks) {
    LaunchTiles<kHeadDim, PromptKeys::kPicked>(queue, prompt, args, cache,
                                               num_blocks);
  } else {
    LaunchTiles<kHeadDim, PromptKeys::kAll>(queue, prompt, args, cache,
                                            num_blocks);
  }
}

}  // namespace

bool AttendPromptTakes(const AttendArgs& args, const LayerCache& cache) {
  const HeadBlockFormat& format = cache.format;
  const int dim = format.k_dim;
  return args.sources.size() == 1 && args.q.dtype == Dtype::kBFloat16 &&
         format.k == Dtype::kBFloat16 && format.v == Dtype::kBFloat16 &&
         args.out.dtype == Dtype::kBFloat16 &&
         (dim == 64 || dim == 96 || dim == 128) && format.v_dim == dim &&
         !format.v_in_k && format.page_tokens == kPageTokens &&
         args.q.dim(1) / cache.num_kv_heads <= kMaxGroupHeads &&
         args.scale > 0 && Aligned(args.q) && Aligned(args.out) &&
         reinterpret_cast<uintptr_t>(cache.layer_blocks) % 16 == 0 &&
         format.head_block_bytes % 16 == 0 &&
         cache.kv_block_stride_bytes % 16 == 0;
}

void EnqueueAttendPrompt(CudaQueue& queue, const LayerStep& step,
                         const AttendArgs& args, const LayerCache& cache) {
  CHECK(AttendPromptTakes(args, cache), "q {} out {} k_dim={} v_dim={}",
        ToString(args.q), ToString(args.out), cache.format.k_dim,
        cache.format.v_dim);
  if (step.num_rows == 0 || step.num_requests == 0 || !step.has_prefill_rows) {
    return;
  }
  const size_t plan_bytes = PlanBytes(step);
  CHECK(plan_bytes <= queue.device().workspace_bytes,
        "workspace_bytes={} requests={}", queue.device().workspace_bytes,
        step.num_requests);
  const PromptArgs prompt = MakePromptArgs(queue, step, args, cache);
  if (prompt.rows.first_row == prompt.rows.end_row) return;
  switch (cache.format.k_dim) {
    case 64:
      return Launch<64>(queue, prompt, step, args, cache);
    case 96:
      return Launch<96>(queue, prompt, step, args, cache);
    default:
      return Launch<128>(queue, prompt, step, args, cache);
  }
}

}  // namespace winnow
