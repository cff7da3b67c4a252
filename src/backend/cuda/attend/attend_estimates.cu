#include <algorithm>

#include "backend/cuda/attend/attend_estimates.h"
#include "backend/cuda/device/attend/attend_estimates.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

using device::EstimateArguments;

static_assert(device::kUnitClusters == kPromptTileTokens &&
              device::kEstimateGroupUnits == kGroupUnits);
constexpr int kBlocksAMultiprocessor = 4;
// A grid's last dimensions end at 65,535.
constexpr int64_t kMaxRows = 32768;

// A block has some units of a row's list, all of the list's heads.
// Grid [blocks of a list, lists, rows].
template <typename Row, int kElements>
__global__ void __launch_bounds__(device::kEstimateThreads,
                                  kBlocksAMultiprocessor)
    AttendEstimatesKernel(const __grid_constant__ EstimateArguments args) {
  extern __shared__ __align__(16) float q[];  // [8, k_dim]
  __shared__ device::EstimateMemory memory;
  device::LetNextBegin();
  const int row = args.first_row + static_cast<int>(blockIdx.z);
  const int list = static_cast<int>(blockIdx.y);
  const int request = args.rows.Request(row);
  const bool is_mine = args.rows.selector != nullptr &&
                       args.rows.selector[request] == args.selector;
  device::WaitForPrior();
  if (args.rows.IsPrompt(row)) return;
  device::EstimateAttention<Row, kElements> reader(args, row, list, memory, q);
  // Rows of selectors that estimate nothing are the first launch's.
  if (!is_mine && !(args.is_first && reader.is_empty())) return;
  reader.Attend(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
}

struct EstimateLaunch {
  CudaQueue& queue;
  EstimateArguments args;
  int num_rows;
  int num_lists;  // the most of a row
};

template <typename Row, int kElements>
void Launch(const EstimateLaunch& launch) {
  const int64_t lines = int64_t{launch.num_lists} * launch.num_rows;
  const int64_t wanted = int64_t{kBlocksAMultiprocessor} *
                         launch.queue.device().num_multiprocessors / lines;
  const dim3 grid(static_cast<unsigned>(std::clamp<int64_t>(
                      wanted, 1, std::max(launch.args.max_units, 1))),
                  static_cast<unsigned>(launch.num_lists),
                  static_cast<unsigned>(launch.num_rows));
  const int shared_bytes =
      int{sizeof(float)} * device::kEstimateHeads * launch.args.k_dim;
  launch.queue.Keep(
      cudaFuncSetAttribute(AttendEstimatesKernel<Row, kElements>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                           shared_bytes),
      "Attend of estimates: shared memory");
  LaunchDependent(launch.queue, "Attend of estimates",
                  AttendEstimatesKernel<Row, kElements>,
                  {.blocks = grid,
                   .num_threads = device::kEstimateThreads,
                   .shared_bytes = shared_bytes},
                  launch.args);
}

// Lanes load four numbers of a key at a time where all keys align.
void LaunchByType(const EstimateLaunch& launch, Dtype dtype) {
  constexpr int kNumbers = 4;
  const device::Summaries& summaries = launch.args.summaries;
  const int64_t bytes = int64_t{kNumbers} * DtypeBytes(dtype);
  const bool aligns = launch.args.k_dim % kNumbers == 0 &&
                      reinterpret_cast<uintptr_t>(summaries.rows) %
                              static_cast<uintptr_t>(bytes) ==
                          0 &&
                      summaries.segment_stride_bytes % bytes == 0 &&
                      summaries.head_bytes % bytes == 0 &&
                      summaries.levels[0].offset_bytes % bytes == 0;
  WithCudaFloat(dtype, [&](auto element) {
    if (aligns) {
      Launch<decltype(element), kNumbers>(launch);
    } else {
      Launch<decltype(element), 1>(launch);
    }
  });
}

EstimateArguments Arguments(const LayerStep& step, const AttendArgs& args,
                            const LayerCache& cache) {
  const PickLists& lists = args.sources[0].picks;
  EstimateArguments of = {};
  of.rows = DeviceRows(step);
  of.selector = -1;
  of.estimates = lists.estimates.As<int32_t>();
  of.num_estimates = lists.num_estimates.As<int32_t>();
  of.num_lists = lists.num_lists.As<int32_t>();
  of.estimates_row_stride = lists.estimates.stride[0];
  of.estimates_list_stride = lists.estimates.stride[1];
  of.num_estimates_stride = lists.num_estimates.stride[0];
  of.lists_first_row = lists.first_row;
  of.num_heads = static_cast<int>(args.q.dim(1));
  of.num_kv_heads = cache.num_kv_heads;
  of.k_dim = cache.format.k_dim;
  of.v_dim = cache.format.v_dim;
  of.q = args.q.data;
  of.q_type = FloatTypeOf(args.q.dtype);
  of.q_row_stride = args.q.stride[0];
  of.q_head_stride = args.q.stride[1];
  of.scale = args.scale;
  of.out = args.out.As<float>();
  of.out_row_stride = args.out.stride[0];
  of.out_head_stride = args.out.stride[1];
  of.lse = args.lse.As<float>();
  of.lse_stride = args.lse.stride[0];
  of.max_units =
      static_cast<int>((lists.estimates.dim(2) + device::kUnitClusters - 1) /
                       device::kUnitClusters);
  return of;
}

// Rows whose states and tickets fit.
int64_t RowsThatFit(const CudaDevice& device, const EstimateArguments& args) {
  const int64_t row_bytes = int64_t{args.num_heads} * args.max_units *
                            (args.v_dim + device::kEstimateStateFloats) *
                            int64_t{sizeof(float)};
  const auto bytes = static_cast<int64_t>(device.workspace_bytes);
  CHECK(row_bytes <= bytes, "workspace_bytes={}, a row needs {}", bytes,
        row_bytes);
  return std::min({kMaxRows, bytes / std::max<int64_t>(row_bytes, 1),
                   device.num_tickets / args.num_heads});
}

// Rows of the lists, of one selector.
void EnqueueRows(EstimateLaunch& launch, const PickLists& lists, Dtype dtype) {
  const int64_t most = RowsThatFit(launch.queue.device(), launch.args);
  const int end = lists.first_row + lists.num_rows();
  for (int row = lists.first_row; row < end; row += launch.num_rows) {
    launch.args.first_row = row;
    launch.num_rows = static_cast<int>(std::min<int64_t>(end - row, most));
    LaunchByType(launch, dtype);
  }
}

}  // namespace

void EnqueueAttendEstimates(CudaQueue& queue, const LayerStep& step,
                            const AttendArgs& args, const LayerCache& cache) {
  const AttendSource& source = args.sources[0];
  CHECK(!args.lse.empty() && args.scale > 0 &&
            args.out.dtype == Dtype::kFloat32 &&
            !source.picks.num_estimates.empty(),
        "out {} lse {} scale={} num_estimates {}", ToString(args.out),
        ToString(args.lse), args.scale, ToString(source.picks.num_estimates));
  EstimateLaunch launch = {.queue = queue,
                           .args = Arguments(step, args, cache),
                           .num_rows = 0,
                           .num_lists = 0};
  launch.args.states = reinterpret_cast<float*>(queue.device().workspace);
  launch.args.tickets = queue.device().tickets;
  launch.args.is_first = true;
  // A row of another selector has at most a list a q head, one without any has
  // one.
  launch.num_lists = cache.num_kv_heads;
  for (const LayerSelector& selector : source.selectors) {
    if (selector.program == nullptr) continue;
    launch.num_lists =
        std::max(launch.num_lists, selector.program->scope == Scope::kQHead
                                       ? launch.args.num_heads
                                       : cache.num_kv_heads);
  }
  for (size_t i = 0; i < source.selectors.size(); ++i) {
    const LayerSelector& selector = source.selectors[i];
    if (selector.program == nullptr || selector.program->estimate.value == 0) {
      continue;
    }
    launch.args.selector = static_cast<int>(i);
    launch.args.summaries =
        DeviceSummaries(*selector.program, selector.summaries, cache);
    EnqueueRows(launch, source.picks, selector.program->rows.dtype);
    launch.args.is_first = false;
  }
  if (launch.args.is_first) EnqueueRows(launch, source.picks, Dtype::kFloat32);
}

}  // namespace winnow
