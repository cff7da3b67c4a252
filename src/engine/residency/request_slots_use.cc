// What a step's slots were asked for, and which layer gets more of them.
#include <algorithm>

#include "engine/residency/request_slots.h"

namespace winnow {

void RequestSlots::CountUse(SequenceId id, int request, int first_layer,
                            int end_layer) {
  if (!ledger_.is_open(id)) return;
  Use& use = uses_[id];
  use.layers.resize(static_cast<size_t>(ledger_.options().num_layers));
  for (int layer = first_layer; layer < end_layer; ++layer) {
    const uint32_t* counts = CountsOf(request, layer);
    SlotUsage& usage = use.layers[static_cast<size_t>(layer)];
    usage.num_misses += counts[kMissesCount];
    for (size_t age = 0; age < usage.hits_by_age.size(); ++age) {
      usage.hits_by_age[age] += counts[kHitsByAgeCount + age];
    }
    for (size_t age = 0; age < usage.slots_by_age.size(); ++age) {
      usage.slots_by_age[age] += counts[kSlotsByAgeCount + age];
    }
  }
  use.num_rows += end_layer == ledger_.options().num_layers;
}

void RequestSlots::MoveFrames() {
  for (auto& [id, use] : uses_) {
    if (use.num_rows < kFrameMoveRows) continue;
    MoveFrames(id, use);
    use = {};
  }
}

std::vector<int> RequestSlots::FramesByLayer(SequenceId id) const {
  std::vector<int> frames;
  for (int layer = 0; layer < ledger_.options().num_layers; ++layer) {
    frames.push_back(static_cast<int>(ledger_.frames(id, layer).size()));
  }
  return frames;
}

// Where chunks do not suffice they stay as they are.
void RequestSlots::Resize(SequenceId id, const std::vector<int>& frames) {
  const std::vector<int> before = FramesByLayer(id);
  if (!ledger_.Resize(id, frames)) return;
  for (size_t layer = 0; layer < frames.size(); ++layer) {
    num_moved_frames_ += std::max(0, frames[layer] - before[layer]);
  }
}

// Layers without choice have no frames and take no part.
void RequestSlots::MoveFrames(SequenceId id, const Use& use) {
  std::vector<int> frames = FramesByLayer(id);
  std::vector<SlotUsage> usages;
  int num_frames = 0;
  for (size_t layer = 0; layer < frames.size(); ++layer) {
    if (frames[layer] == 0) continue;
    usages.push_back(use.layers[layer]);
    usages.back().num_frames = frames[layer];
    num_frames += frames[layer];
  }
  const LayerBlockPoolOptions& pool = memory_.device.pool().options();
  const FrameLimits limits =
      LimitsFor(num_frames / static_cast<int>(usages.size()),
                ledger_.options().max_frames,
                PiecesAPage(pool.format) * pool.num_kv_heads);
  const std::vector<int> chosen = Redistribute(usages, limits);
  auto next = chosen.begin();
  for (int& count : frames) {
    if (count > 0) count = *next++;
  }
  Resize(id, frames);
}

void RequestSlots::MoveFrame(SequenceId id, int from_layer, int to_layer) {
  if (!ledger_.is_open(id)) return;
  std::vector<int> frames = FramesByLayer(id);
  int& from = frames[static_cast<size_t>(from_layer)];
  int& to = frames[static_cast<size_t>(to_layer)];
  if (from < 2 || to == 0 || to == ledger_.options().max_frames) return;
  --from;
  ++to;
  Resize(id, frames);
}

const uint32_t* RequestSlots::CountsOf(int request, int layer) const {
  const int64_t first =
      (int64_t{layer} * options_.max_requests + request) * kNumFetchCounts;
  return reinterpret_cast<const uint32_t*>(counts_.data()) + first;
}

// What found no slot is read on the host where it lies, and crosses the link
// too, as often as it is read. What stays reclaimable does not.
FetchedPieces RequestSlots::Brought(int request, int first_layer,
                                    int end_layer) const {
  const Row& row = rows_[static_cast<size_t>(request)];
  FetchedPieces sum = {.near_bytes = row.near_bytes};
  for (int layer = first_layer; layer < end_layer; ++layer) {
    const uint32_t* counts = CountsOf(request, layer);
    const bool is_near = row.selector >= 0 &&
                         std::ranges::count(NearLayers(row.selector), layer);
    if (is_near) {
      sum += {.picks = counts[kPicksCount], .hits = counts[kPicksCount]};
      continue;
    }
    const int64_t num_over_link = int64_t{counts[kFetchedCount]} +
                                  counts[kUnplacedCount] -
                                  counts[kReclaimableCount];
    sum += {.picks = counts[kPicksCount],
            .hits = counts[kHitsCount],
            .misses = counts[kMissesCount],
            .hints = counts[kHintsCount],
            .hints_used = counts[kHintsUsedCount],
            .reclaimable = counts[kReclaimableCount],
            .fetched_bytes = num_over_link * PieceBytes()};
  }
  return sum;
}

}  // namespace winnow
