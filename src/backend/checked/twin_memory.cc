#include "backend/checked/twin_memory.h"

namespace winnow {

void TwinMemory::Add(std::byte* device, Buffer twin) {
  twins_.insert_or_assign(device, std::move(twin));
}

void TwinMemory::Remove(std::byte* device) { twins_.erase(device); }

const std::pair<std::byte* const, Buffer>* TwinMemory::Find(
    const std::byte* device) const {
  auto behind = twins_.upper_bound(const_cast<std::byte*>(device));
  if (behind == twins_.begin()) return nullptr;
  const auto& found = *--behind;
  const bool inside = device < found.first + found.second.num_bytes();
  return inside ? &found : nullptr;
}

std::byte* TwinMemory::Of(std::byte* device) const {
  const auto* found = Find(device);
  return found == nullptr ? device
                          : found->second.data() + (device - found->first);
}

View TwinMemory::PieceAround(const std::byte* device) const {
  const auto* found = Find(device);
  if (found == nullptr) return {};
  return MakeView(found->first, Dtype::kUInt8,
                  {static_cast<int64_t>(found->second.num_bytes())});
}

LayerStep TwinMemory::Of(LayerStep step) const {
  for (View* view :
       {&step.row_to_request, &step.first_row, &step.first_position,
        &step.num_tokens, &step.num_prefill_rows, &step.selector,
        &step.num_prompt_tokens, &step.num_context_tokens, &step.tree_parent}) {
    *view = Of(*view);
  }
  return step;
}

RowTable TwinMemory::Of(RowTable table) const {
  return {.first = Of(table.first), .entries = Of(table.entries)};
}

LayerCache TwinMemory::Of(LayerCache cache) const {
  cache.layer_blocks = Of(cache.layer_blocks);
  cache.page_table = Of(cache.page_table);
  return cache;
}

PickLists TwinMemory::Of(PickLists lists) const {
  for (View* view : {&lists.picks, &lists.num_picks, &lists.num_lists,
                     &lists.num_kept, &lists.estimates, &lists.num_estimates}) {
    *view = Of(*view);
  }
  return lists;
}

// The host's memory has no twin: host_memory's addresses are the same. Those of
// them that stand for layer blocks of the device's pool
// (cache/device/slot_tables.h) lead to the subject's, which a reference must be
// able to read.
SlotTable TwinMemory::Of(SlotTable slots) const {
  for (View* view :
       {&slots.num_segments, &slots.entries, &slots.num_frames, &slots.frames,
        &slots.tags, &slots.ages, &slots.host_memory}) {
    *view = Of(*view);
  }
  for (RowTable* table : {&slots.directory, &slots.chunks, &slots.host_pages}) {
    *table = Of(*table);
  }
  slots.layer_blocks = Of(slots.layer_blocks);
  return slots;
}

LayerSelector TwinMemory::Of(LayerSelector selector) const {
  selector.summaries.rows = Of(selector.summaries.rows);
  selector.summaries.segments = Of(selector.summaries.segments);
  selector.fixed.words = Of(selector.fixed.words);
  selector.fixed.segments = Of(selector.fixed.segments);
  selector.fixed.slots = Of(selector.fixed.slots);
  selector.fixed.slot_of_request = Of(selector.fixed.slot_of_request);
  for (View* view : {&selector.gate.q, &selector.gate.k, &selector.gate.q_norm,
                     &selector.gate.k_norm}) {
    *view = Of(*view);
  }
  return selector;
}

}  // namespace winnow
