// What slots a request may have, by what reads it, and the tables for them.
#ifndef WINNOW_ENGINE_RESIDENCY_SLOT_CAPACITY_H_
#define WINNOW_ENGINE_RESIDENCY_SLOT_CAPACITY_H_

#include <vector>

#include "cache/device/slot_tables.h"
#include "kv/slot_budget.h"
#include "kv/table_capacity.h"
#include "sparse/spec/selector.h"

namespace winnow {

// What a request owns in slots where nobody says how much.
inline constexpr CacheBudget kDefaultCacheBudget = {.tokens = 0, .times = 4};

// Frames by layer, of a request that reaches `max_context` tokens. REQUIRES: it
// may have slots, of `slot_tokens`.
std::vector<int> SlotFramesOf(const Selector& selector, int slot_tokens,
                              int64_t max_context, const CacheBudget& budget);

// The layers that its rows read whole, whatever they choose in others: of their
// pages all that have left the device keep their layer blocks of these layers
// there, as a row would bring all of them over the link. (Of Llama-3.1-8B's
// 128K two layers are 1 GiB: 21 ms a row.) Layers with a sliding window are
// none.
std::vector<int> NearLayersOf(const Selector& selector);
// KV blocks that layer blocks of `num_pages` pages in so many layers are.
int64_t NumNearKvBlocks(int64_t num_pages, size_t num_near_layers,
                        int num_layers);

struct SlotCapacity {
  LayerBlockPoolOptions pool;  // in whose format slots are
  int64_t num_host_kv_blocks = 0;
  int max_sequences = 0;    // that run at once
  int max_requests = 0;     // in one step
  int layer_frames = 0;     // of a request, at most, on the average of layers
  int num_near_layers = 0;  // of a request
  // Layers in which requests choose; none: all.
  std::vector<bool> slot_layers = {};

  // As requests by this selector need, beside those of others.
  void AddLayersOf(const Selector& selector);
};

// The tables for that: what bounds them is what device and host hold, never how
// long a request may become.
SlotTablesOptions SlotTablesFor(const SlotCapacity& room);

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_SLOT_CAPACITY_H_
