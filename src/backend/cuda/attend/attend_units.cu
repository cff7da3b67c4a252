#include <algorithm>
#include <limits>
#include <numbers>

#include "backend/cuda/attend/attend_lists.h"
#include "backend/cuda/attend/attend_units.h"
#include "backend/cuda/device/attend/attend_run.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"

namespace winnow {
namespace {

using device::UnitsArguments;

constexpr int kMaxGroupHeads = 16;

// Asks for the page tables that lists may name pages of, a line a thread.
__device__ void LoadPageTables(const UnitsArguments& args) {
  constexpr int kLinePages = 32;
  const device::StepRows& rows = args.tasks.rows;
  const int num_lines = (args.pages.max_pages + kLinePages - 1) / kLinePages;
  const int line = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int request = line / num_lines;
  if (request >= rows.num_requests) return;
  const int page = line % num_lines * kLinePages;
  const int end = rows.first_position[request] + rows.num_tokens[request];
  if (page * device::kAttendPageTokens >= end) return;
  device::LoadIntoL2(args.pages.page_table + args.pages.first_page[request] +
                     page);
}

// Asks for what the next op reads: until Select has chosen, memory is idle.
__device__ void LoadAhead(const UnitsArguments& args) {
  if (args.ahead == nullptr) return;
  constexpr int kLineBytes = 128;
  const int num_threads = static_cast<int>(gridDim.x * blockDim.x);
  const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int at = thread * kLineBytes; at < args.ahead_bytes;
       at += num_threads * kLineBytes) {
    device::LoadIntoL2(args.ahead + at);
  }
}

// Grid: as many blocks as run at a time. Each takes an even share of all units
// (or of groups of units) of the decode rows, in the order of rows, tasks
// and ranks. q and out [rows, q_heads, kDim], pages [K 32 x kDim][V 32 x kDim].
// A warp reads page after page: 128 x kDim bytes and 2 x 32 x kDim x 8 kTiles
// products each. States of tasks that blocks share: a state of kDim + 4 floats
// a group, or a unit, written and read. kSlots: of pages that are not whole it
// reads pieces from slots and the host.
template <int kDim, int kTiles, bool kSlots>
__global__ void __launch_bounds__(device::kUnitThreads,
                                  device::UnitMemory<kDim>::kBlocksAnSm)
    AttendUnitsKernel(const __grid_constant__ UnitsArguments args) {
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ device::ShareFinder::Memory finder_memory;
  __shared__ bool is_last;
  device::LetNextBegin();
  device::ShareFinder finder(args.tasks, finder_memory);
  // No op writes the tables of a step, which say all of those that read
  // every page. Lists are another op's, and so are slots.
  if (kSlots || args.tasks.lists.picks != nullptr) {
    LoadPageTables(args);
    LoadAhead(args);
    device::WaitForPrior();
  }
  const device::UnitShare share = finder.Find(args.max_units);
  if (share.begin == share.end) return device::WaitForPrior();
  device::UnitTeam<kDim, kTiles, kSlots> team(
      args, *reinterpret_cast<device::UnitMemory<kDim>*>(shared), is_last);
  team.ReadShare(share);
}

// How many rows a launch reads, and where their states stand.
struct Room {
  int num_rows = 0;
  int64_t units_offset_bytes = 0;
  int max_units = 0;

  Room(const CudaDevice& device, const UnitsArguments& args, int all_rows) {
    const int64_t state_bytes = 4 * (int64_t{args.pages.k_dim} + 4);
    const int64_t num_heads = args.tasks.lists.num_heads;
    const int64_t row_bytes = num_heads * args.max_groups * state_bytes;
    const int64_t row_tickets = num_heads * (args.max_groups + 1);
    const auto bytes = static_cast<int64_t>(device.workspace_bytes);
    CHECK(bytes >= row_bytes, "workspace_bytes={}, a row needs {}", bytes,
          row_bytes);
    CHECK(device.num_tickets >= row_tickets, "tickets={}, a row needs {}",
          device.num_tickets, row_tickets);
    num_rows = static_cast<int>(std::min({int64_t{all_rows}, bytes / row_bytes,
                                          device.num_tickets / row_tickets}));
    units_offset_bytes = num_rows * row_bytes;
    max_units = static_cast<int>(std::clamp<int64_t>(
        (bytes - units_offset_bytes) / (args.tasks.group_heads * state_bytes),
        0, std::numeric_limits<int>::max()));
  }
};

UnitsArguments Arguments(const LayerStep& step, const AttendArgs& args,
                         const LayerCache& cache) {
  UnitsArguments units = {};
  units.tasks.rows = DeviceRows(step);
  units.tasks.lists = DeviceLists(step, args);
  units.tasks.num_kv_heads = cache.num_kv_heads;
  units.pages = DevicePages(cache, args.slots);
  units.q = CudaData<__nv_bfloat16>(args.q);
  units.q_row_stride = args.q.stride[0];
  units.q_head_stride = args.q.stride[1];
  units.out = args.out.data;
  units.out_type = FloatTypeOf(args.out.dtype);
  units.out_row_stride = args.out.stride[0];
  units.out_head_stride = args.out.stride[1];
  units.lse = args.lse.empty() ? nullptr : args.lse.As<float>();
  units.lse_stride = args.lse.stride[0];
  units.scale_log2 = args.scale * std::numbers::log2e_v<float>;
  constexpr int kGroupPages = kUnitPicks * kGroupUnits;
  units.max_groups = (units.pages.max_pages + kGroupPages - 1) / kGroupPages;
  units.tasks.group_heads =
      static_cast<int>(args.q.dim(1)) / cache.num_kv_heads;
  return units;
}

// One row's lists leave room in L2 for a part of the next product's weights:
// those of 32 q heads that read 2,048 tokens each are 34 MB of an H200's 50. So
// much of them is asked for: 3.5 us at 4.8 TB/s, of the 10 that a choice takes.
constexpr int64_t kAheadBytes = 16 << 20;

void SetAhead(const View& ahead, UnitsArguments& units) {
  if (units.tasks.lists.picks == nullptr || units.tasks.lists.num_rows > 1 ||
      ahead.empty()) {
    return;
  }
  const int64_t bytes = ((ahead.dim(0) - 1) * ahead.stride[0] + ahead.dim(1)) *
                        DtypeBytes(ahead.dtype);
  units.ahead = ahead.data;
  units.ahead_bytes = static_cast<int>(std::min(bytes, kAheadBytes));
}

template <int kDim, int kTiles, bool kSlots>
void Launch(CudaQueue& queue, const UnitsArguments& args) {
  using Memory = device::UnitMemory<kDim>;
  auto* kernel = AttendUnitsKernel<kDim, kTiles, kSlots>;
  queue.Keep(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           sizeof(Memory)),
      "Attend by units: shared memory");
  // (That the kernels around it ask for the same, so that multiprocessors need
  // not be set anew in between, changed nothing: 96.2 us a layer of
  // Llama-3.1-8B's shape at 128K against 96.1.)
  queue.Keep(cudaFuncSetAttribute(
                 kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                 cudaSharedmemCarveoutMaxShared),
             "Attend by units: shared memory");
  const int num_sms = queue.device().num_multiprocessors;
  const int64_t num_lanes = int64_t{args.tasks.end_row - args.tasks.first_row} *
                            args.tasks.lists.num_heads;
  const auto num_blocks = static_cast<unsigned>(
      std::min<int64_t>(num_sms * Memory::kBlocksAnSm,
                        num_lanes * args.max_groups * kGroupUnits));
  LaunchDependent(queue, "Attend by units", kernel,
                  {.blocks = num_blocks,
                   .num_threads = device::kUnitThreads,
                   .shared_bytes = int{sizeof(Memory)}},
                  args);
}

template <int kDim, bool kSlots>
void LaunchTiles(CudaQueue& queue, const UnitsArguments& args) {
  if (args.tasks.group_heads <= 8) return Launch<kDim, 1, kSlots>(queue, args);
  Launch<kDim, 2, kSlots>(queue, args);
}

// Pages that are all whole are read by the kernel that knows no others.
template <int kDim>
void LaunchPlaces(CudaQueue& queue, const UnitsArguments& args) {
  if (args.pages.slots.directory == nullptr) {
    return LaunchTiles<kDim, false>(queue, args);
  }
  LaunchTiles<kDim, true>(queue, args);
}

}  // namespace

bool AttendUnitsTakes(const AttendArgs& args, const LayerCache& cache) {
  const HeadBlockFormat& format = cache.format;
  const auto address = reinterpret_cast<uintptr_t>(cache.layer_blocks);
  return args.q.dtype == Dtype::kBFloat16 && format.k == Dtype::kBFloat16 &&
         format.v == Dtype::kBFloat16 &&
         (args.out.dtype == Dtype::kBFloat16 ||
          args.out.dtype == Dtype::kFloat32) &&
         format.k_dim == format.v_dim && !format.v_in_k &&
         (format.k_dim == 64 || format.k_dim == 96 || format.k_dim == 128) &&
         args.q.dim(1) <= kMaxGroupHeads * cache.num_kv_heads &&
         address % 16 == 0 && cache.kv_block_stride_bytes % 16 == 0 &&
         format.head_block_bytes % 16 == 0 &&
         (args.slots == nullptr ||
          (args.slots->layer_block_bytes % 16 == 0 &&
           args.slots->host_kv_block_bytes % 16 == 0 &&
           args.slots->host_layer_offset_bytes % 16 == 0));
}

void EnqueueAttendUnits(CudaQueue& queue, const LayerStep& step,
                        const AttendArgs& args, const LayerCache& cache) {
  CHECK(AttendUnitsTakes(args, cache), "q {} out {} kv_heads={} k={} v_dim={}",
        ToString(args.q), ToString(args.out), cache.num_kv_heads,
        DtypeName(cache.format.k), cache.format.v_dim);
  UnitsArguments units = Arguments(step, args, cache);
  const int first_row = units.tasks.lists.first_row;
  const int end_row = first_row + units.tasks.lists.num_rows;
  if (first_row == end_row) return;
  const Room room(queue.device(), units, end_row - first_row);
  std::byte* workspace = queue.device().workspace;
  units.tickets = queue.device().tickets;
  units.groups = reinterpret_cast<float*>(workspace);
  units.units = reinterpret_cast<float*>(workspace + room.units_offset_bytes);
  units.max_units = room.max_units;
  SetAhead(args.ahead, units);
  for (int row = first_row; row < end_row; row += room.num_rows) {
    units.tasks.first_row = row;
    units.tasks.end_row = std::min(end_row, row + room.num_rows);
    switch (cache.format.k_dim) {
      case 64:
        LaunchPlaces<64>(queue, units);
        break;
      case 96:
        LaunchPlaces<96>(queue, units);
        break;
      default:
        LaunchPlaces<128>(queue, units);
    }
  }
}

}  // namespace winnow
