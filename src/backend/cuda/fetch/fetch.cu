#include <algorithm>

#include "backend/contract/replacement.h"
#include "backend/cuda/attend/attend_lists.h"
#include "backend/cuda/device/fetch/fetch_head.cuh"
#include "backend/cuda/fetch/fetch.h"
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
              int{device::kReclaimableCount} == kReclaimableCount &&
              int{device::kHitsByAgeCount} == kHitsByAgeCount &&
              int{device::kNumFetchCounts} == kNumFetchCounts);

// Grid: requests x KV heads of the launch. Lists [rows, q_heads, capacity],
// tags and ages [slots]; a block finds its picks, chooses victims, and copies
// what is missing from the host's memory, or from where it stays reclaimable, a
// piece a warp.
__global__ void __launch_bounds__(device::kChooseThreads)
    FetchKernel(const __grid_constant__ device::FetchArguments args) {
  extern __shared__ device::SlotUse uses[];  // [max_slots]
  __shared__ device::FetchMemory memory;
  device::HeadFetch(args, memory, uses).Run();
}

// What Attend would take for the same source.
device::AttendLists Lists(const LayerStep& step, const AttendSource& source,
                          int num_kv_heads) {
  AttendArgs read;
  read.sources = {&source, 1};
  // Of q the number of heads counts, which the lists have; without lists, one
  // a KV head will do.
  read.q.rank = 3;
  read.q.shape[1] = source.kind == AttendSource::Kind::kAllPages
                        ? num_kv_heads
                        : source.picks.num_picks.dim(1);
  return DeviceLists(step, read);
}

}  // namespace

void EnqueueFetch(CudaQueue& queue, const LayerStep& step,
                  const FetchArgs& args, const LayerCache& cache) {
  if (step.num_rows == 0 || !step.has_decode_rows) return;
  CheckFetch(step, args, cache);
  const HeadBlockFormat& format = cache.format;
  device::FetchArguments fetch = {};
  fetch.rows = DeviceRows(step);
  fetch.lists = Lists(step, args.source, cache.num_kv_heads);
  if (!args.hints.picks.empty()) {
    fetch.hints =
        Lists(step, {.kind = AttendSource::Kind::kPicks, .picks = args.hints},
              cache.num_kv_heads);
  }
  fetch.pages = DevicePages(cache, args.slots);
  fetch.least_hint_age = args.least_hint_age;
  fetch.counts = args.counts.empty() ? nullptr : args.counts.As<uint32_t>();
  fetch.counts_stride = args.counts.stride[0];
  fetch.k_token_bytes = format.k_dim * DtypeBytes(format.k);
  fetch.v_token_bytes = format.v_in_k ? 0 : format.v_dim * DtypeBytes(format.v);
  fetch.max_slots = static_cast<int>(std::min<int64_t>(
      kMaxSlots, PagesFor(args.slots->max_frames, kChunkFrames) * kChunkFrames *
                     PiecesAPage(format)));
  const int64_t request_bytes =
      int64_t{fetch.max_slots} * cache.num_kv_heads * 16;
  const auto room = static_cast<int64_t>(queue.device().workspace_bytes);
  CHECK(room >= request_bytes, "workspace_bytes={} a request needs {}", room,
        request_bytes);
  const int most = static_cast<int>(
      std::min<int64_t>(step.num_requests, room / request_bytes));
  fetch.missing = reinterpret_cast<uint32_t*>(queue.device().workspace);
  fetch.fetched = reinterpret_cast<int32_t*>(
      fetch.missing + int64_t{2} * fetch.max_slots * cache.num_kv_heads * most);
  for (int first = 0; first < step.num_requests; first += most) {
    fetch.first_request = first;
    const int count = std::min(most, step.num_requests - first);
    FetchKernel<<<static_cast<unsigned>(count * cache.num_kv_heads),
                  device::kChooseThreads, static_cast<size_t>(fetch.max_slots),
                  queue.stream()>>>(fetch);
  }
  queue.KeepLaunch("Fetch");
}

}  // namespace winnow
