#include "engine/residency/slot_capacity.h"

#include <algorithm>

namespace winnow {
namespace {

// What a row reads of its context because the program says so.
int64_t SelectedTokens(const SelectProgram& program, int64_t context) {
  const Forced& forced = program.forced;
  return program.budget.TokensOf(context) +
         program.fixed.budget.TokensOf(context) +
         (forced.inside_budget ? 0 : forced.sink_tokens + forced.recent_tokens);
}

std::vector<bool> ChoosingLayers(const Selector& selector) {
  std::vector<bool> layers = selector.dense;
  layers.flip();
  return layers;
}

}  // namespace

std::vector<int> SlotFramesOf(const Selector& selector, int slot_tokens,
                              int64_t max_context, const CacheBudget& budget) {
  const std::vector<bool> layers = ChoosingLayers(selector);
  const int wanted = budget.FramesFor(
      SelectedTokens(selector.program, max_context), max_context);
  // What fills the last KV block goes to some layers on top.
  const int most =
      kMaxSlots / (kPageTokens / slot_tokens) - static_cast<int>(layers.size());
  return FillKvBlocks(std::clamp(wanted, 1, std::max(1, most)), layers);
}

std::vector<int> NearLayersOf(const Selector& selector) {
  std::vector<int> layers;
  for (size_t layer = 0; layer < selector.reads_all.size(); ++layer) {
    if (selector.reads_all[layer]) layers.push_back(static_cast<int>(layer));
  }
  return layers;
}

int64_t NumNearKvBlocks(int64_t num_pages, size_t num_near_layers,
                        int num_layers) {
  const int64_t num_layer_blocks =
      num_pages * static_cast<int64_t>(num_near_layers);
  return (num_layer_blocks + num_layers - 1) / num_layers;
}

void SlotCapacity::AddLayersOf(const Selector& selector) {
  num_near_layers = std::max(num_near_layers,
                             static_cast<int>(NearLayersOf(selector).size()));
  const std::vector<bool> choosing = ChoosingLayers(selector);
  slot_layers.resize(choosing.size());
  for (size_t layer = 0; layer < choosing.size(); ++layer) {
    if (choosing[layer]) slot_layers[layer] = true;
  }
}

SlotTablesOptions SlotTablesFor(const SlotCapacity& room) {
  const LayerBlockPoolOptions& pool = room.pool;
  const TableCapacity tables = {.num_kv_blocks = pool.num_kv_blocks,
                                .num_host_kv_blocks = room.num_host_kv_blocks,
                                .max_sequences = room.max_sequences};
  // Of a layer, as entries tell them apart.
  const int most_frames = kMaxSlots / PiecesAPage(pool.format);
  return {
      .format = pool.format,
      .num_layers = pool.num_layers,
      .num_kv_heads = pool.num_kv_heads,
      .num_segments = NumSlotSegments(tables),
      .num_chunks = NumSlotChunks(tables, pool.num_layers, room.layer_frames),
      .max_requests = room.max_requests,
      .num_far_pages = room.num_host_kv_blocks,
      .num_table_pages = NumTablePages(tables),
      // A layer may have twice its share.
      .max_frames = std::min(2 * room.layer_frames, most_frames),
      .num_near_layers = room.num_near_layers,
      .slot_layers = room.slot_layers};
}

}  // namespace winnow
