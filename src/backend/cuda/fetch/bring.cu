#include <algorithm>

#include "backend/contract/replacement.h"
#include "backend/cuda/attend/read_lists.h"
#include "backend/cuda/device/fetch/bring_head.cuh"
#include "backend/cuda/fetch/bring.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

static_assert(device::kNumAges == kNumAges && device::kEmptyAge == kEmptyAge &&
              device::kAgeMask == kAgeMask && device::kHintedBit == kHintedBit);
static_assert(device::kHintedRank == kHintedRank &&
              device::kFirstAgeRank == kFirstAgeRank &&
              device::kNumRanks == kNumRanks);
static_assert(int{device::kFetchedCount} == kFetchedCount &&
              int{device::kLingeringCount} == kLingeringCount &&
              int{device::kHitsByAgeCount} == kHitsByAgeCount &&
              int{device::kNumBringCounts} == kNumBringCounts);

// Grid: requests x KV heads of the launch. Lists [rows, q_heads, capacity],
// tags and ages [slots]; a block finds its picks, chooses victims, and copies
// what is missing from the host's memory, or from where it lingers, a piece a
// warp.
__global__ void __launch_bounds__(device::kChooseThreads)
    BringKernel(const __grid_constant__ device::BringArguments args) {
  extern __shared__ device::SlotUse uses[];  // [max_slots]
  __shared__ device::BringMemory memory;
  device::HeadBring(args, memory, uses).Run();
}

// What Read would take for the same source.
device::ReadLists Lists(const LayerStep& step, const ReadSource& source,
                        int num_kv_heads) {
  ReadArgs read;
  read.sources = {&source, 1};
  // Of q the number of heads counts, which the lists have; without lists, one
  // a KV head will do.
  read.q.rank = 3;
  read.q.shape[1] = source.kind == ReadSource::Kind::kAllPages
                        ? num_kv_heads
                        : source.picks.num_picks.dim(1);
  return DeviceLists(step, read);
}

}  // namespace

void EnqueueBring(CudaQueue& queue, const LayerStep& step,
                  const BringArgs& args, const LayerCache& cache) {
  if (step.num_rows == 0 || !step.has_generated_rows) return;
  CheckBring(step, args, cache);
  const SliceFormat& format = cache.format;
  device::BringArguments bring = {};
  bring.rows = DeviceRows(step);
  bring.lists = Lists(step, args.source, cache.num_kv_heads);
  if (!args.hints.picks.empty()) {
    bring.hints =
        Lists(step, {.kind = ReadSource::Kind::kPicks, .picks = args.hints},
              cache.num_kv_heads);
  }
  bring.pages = DevicePages(cache, args.slots);
  bring.least_hint_age = args.least_hint_age;
  bring.counts = args.counts.empty() ? nullptr : args.counts.As<uint32_t>();
  bring.counts_stride = args.counts.stride[0];
  bring.k_token_bytes = format.k_dim * DtypeBytes(format.k);
  bring.v_token_bytes = format.v_in_k ? 0 : format.v_dim * DtypeBytes(format.v);
  bring.max_slots = static_cast<int>(std::min<int64_t>(
      kMaxSlots, PagesFor(args.slots->max_frames, kChunkFrames) * kChunkFrames *
                     PiecesAPage(format)));
  const int64_t request_bytes =
      int64_t{bring.max_slots} * cache.num_kv_heads * 16;
  const auto room = static_cast<int64_t>(queue.device().workspace_bytes);
  CHECK(room >= request_bytes, "workspace_bytes={} a request needs {}", room,
        request_bytes);
  const int most = static_cast<int>(
      std::min<int64_t>(step.num_requests, room / request_bytes));
  bring.missing = reinterpret_cast<uint32_t*>(queue.device().workspace);
  bring.fetched = reinterpret_cast<int32_t*>(
      bring.missing + int64_t{2} * bring.max_slots * cache.num_kv_heads * most);
  for (int first = 0; first < step.num_requests; first += most) {
    bring.first_request = first;
    const int count = std::min(most, step.num_requests - first);
    BringKernel<<<static_cast<unsigned>(count * cache.num_kv_heads),
                  device::kChooseThreads, static_cast<size_t>(bring.max_slots),
                  queue.stream()>>>(bring);
  }
  queue.KeepLaunch("Bring");
}

}  // namespace winnow
