// Layers that a request reads whole: the strips of pages that it has given up.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "engine/residency/request_slots.h"

namespace winnow {

int64_t RequestSlots::NumNearExtents(int selector, int64_t num_places) const {
  return winnow::NumNearExtents(num_places, NearLayers(selector).size(),
                                ledger_.options().num_layers);
}

int64_t RequestSlots::NumMoreExtents(SequenceId id, const Owner& owner,
                                     int64_t num_pages) const {
  const int64_t num_held =
      std::ssize(ledger_.held(id)) / ledger_.options().num_layers;
  const int64_t num_wanted =
      NumNearExtents(owner.selector, owner.near.NumPlacesWith(num_pages));
  return std::max<int64_t>(0, num_wanted - num_held);
}

// Whole extents: what they have more than is needed is there for the next.
void RequestSlots::HoldNear(SequenceId id, const Owner& owner) {
  const int64_t num_more = NumMoreExtents(id, owner, 0);
  for (int64_t i = 0; i < num_more; ++i) ledger_.Split(*memory_.kv.Lend());
  const int64_t num_strips =
      std::ssize(ledger_.held(id)) + num_more * ledger_.options().num_layers;
  CHECK(ledger_.Hold(id, num_strips), "sequence={} strips={}", id.value(),
        num_strips);
}

std::vector<uint32_t> RequestSlots::NearStrips(SequenceId id,
                                               const Owner& owner) const {
  const size_t num_near = NearLayers(owner.selector).size();
  if (num_near == 0) return {};
  const std::span<const uint32_t> held = ledger_.held(id);
  const int64_t num_pages = std::ssize(memory_.kv.far_pages(id));
  std::vector<uint32_t> strips(static_cast<size_t>(num_pages) * num_near);
  for (int64_t page = 0; page < num_pages; ++page) {
    const std::optional<int64_t> place = owner.near.PlaceOf(page);
    if (!place) continue;
    std::ranges::copy(
        held.subspan(static_cast<size_t>(*place) * num_near, num_near),
        strips.begin() + page * static_cast<int64_t>(num_near));
  }
  return strips;
}

int64_t RequestSlots::CopyNear(Queue& queue, const SlotRequest& request,
                               Owner& owner) {
  const std::vector<int64_t> pages = owner.near.TakeAdded();
  if (pages.empty()) return 0;
  std::map<int64_t, ExtentId> lingering;
  for (const auto& [page, extent] : request.lingering) {
    lingering[page] = extent;
  }
  const std::span<const int> layers = request.near_layers;
  std::vector<NearCopy> copies;
  int64_t num_over_link = 0;
  for (const int64_t page : pages) {
    const auto there = lingering.find(page);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto at = static_cast<size_t>(page) * layers.size() + i;
      NearCopy& copy = copies.emplace_back(
          NearCopy{.host = request.host_pages[static_cast<size_t>(page)],
                   .layer = layers[i],
                   .strip = request.near_strips[at]});
      if (there != lingering.end()) copy.lingering = there->second;
    }
    if (there == lingering.end()) num_over_link += std::ssize(layers);
  }
  tables_->CopyNear(queue, copies);
  return num_over_link * memory_.device.pool().strip_bytes();
}

}  // namespace winnow
