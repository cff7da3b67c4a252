// Layers that a request reads whole: the layer blocks of pages that it has
// given up.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "engine/residency/request_slots.h"

namespace winnow {

int64_t RequestSlots::NumNearKvBlocks(int selector, int64_t num_places) const {
  return winnow::NumNearKvBlocks(num_places, NearLayers(selector).size(),
                                 ledger_.options().num_layers);
}

int64_t RequestSlots::NumMoreKvBlocks(SequenceId id, const Owner& owner,
                                      int64_t num_pages) const {
  const int64_t num_held =
      std::ssize(ledger_.held(id)) / ledger_.options().num_layers;
  const int64_t num_wanted =
      NumNearKvBlocks(owner.selector, owner.near.NumPlacesWith(num_pages));
  return std::max<int64_t>(0, num_wanted - num_held);
}

// Whole KV blocks: what they have more than is needed is there for the next.
void RequestSlots::HoldNear(SequenceId id, const Owner& owner) {
  const int64_t num_more = NumMoreKvBlocks(id, owner, 0);
  for (int64_t i = 0; i < num_more; ++i) ledger_.Split(*memory_.kv.Lend());
  const int64_t num_layer_blocks =
      std::ssize(ledger_.held(id)) + num_more * ledger_.options().num_layers;
  CHECK(ledger_.Hold(id, num_layer_blocks), "sequence={} layer blocks={}",
        id.value(), num_layer_blocks);
}

std::vector<uint32_t> RequestSlots::NearLayerBlocks(SequenceId id,
                                                    const Owner& owner) const {
  const size_t num_near = NearLayers(owner.selector).size();
  if (num_near == 0) return {};
  const std::span<const uint32_t> held = ledger_.held(id);
  const int64_t num_pages = std::ssize(memory_.kv.far_pages(id));
  std::vector<uint32_t> layer_blocks(static_cast<size_t>(num_pages) * num_near);
  for (int64_t page = 0; page < num_pages; ++page) {
    const std::optional<int64_t> place = owner.near.PlaceOf(page);
    if (!place) continue;
    std::ranges::copy(
        held.subspan(static_cast<size_t>(*place) * num_near, num_near),
        layer_blocks.begin() + page * static_cast<int64_t>(num_near));
  }
  return layer_blocks;
}

int64_t RequestSlots::CopyNear(Queue& queue, const SlotRequest& request,
                               Owner& owner) {
  const std::vector<int64_t> pages = owner.near.TakeAdded();
  if (pages.empty()) return 0;
  std::map<int64_t, KvBlockId> reclaimable;
  for (const auto& [page, kv_block] : request.reclaimable) {
    reclaimable[page] = kv_block;
  }
  const std::span<const int> layers = request.near_layers;
  std::vector<NearCopy> copies;
  int64_t num_over_link = 0;
  for (const int64_t page : pages) {
    const auto there = reclaimable.find(page);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto at = static_cast<size_t>(page) * layers.size() + i;
      NearCopy& copy = copies.emplace_back(
          NearCopy{.host = request.host_pages[static_cast<size_t>(page)],
                   .layer = layers[i],
                   .layer_block = request.near_layer_blocks[at]});
      if (there != reclaimable.end()) copy.reclaimable = there->second;
    }
    if (there == reclaimable.end()) num_over_link += std::ssize(layers);
  }
  tables_->CopyNear(queue, copies);
  return num_over_link * memory_.device.pool().layer_block_bytes();
}

}  // namespace winnow
