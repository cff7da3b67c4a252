#include "engine/residency/kv_tables.h"

#include <algorithm>
#include <numeric>

#include "cache/device/device_cache.h"
#include "cache/device/prompt_layer_blocks.h"
#include "engine/selection/slot_tokens.h"

namespace winnow {
namespace {

// Whole pages of a request that has slots: the open one, and one whose keys are
// not summarised yet.
constexpr int64_t kTailPages = 2;

TableCapacity TableCapacityOf(const SlotCapacity& room) {
  return {.num_kv_blocks = room.pool.num_kv_blocks,
          .num_host_kv_blocks = room.num_host_kv_blocks,
          .max_sequences = room.max_sequences};
}

}  // namespace

KvTablesBytes KvTablesOf(const SlotCapacity& room,
                         const SummaryCacheOptions& summaries) {
  const TableCapacity tables = TableCapacityOf(room);
  DeviceCacheOptions cache;
  cache.num_kv_blocks = room.pool.num_kv_blocks;
  cache.max_requests = room.max_requests;
  cache.num_table_pages = NumTablePages(tables);
  const PromptLayerBlocksOptions layer_blocks = {
      .max_requests = room.max_requests,
      .num_table_pages = NumPromptTablePages(tables)};
  return {.page_tables =
              static_cast<int64_t>(DevicePageTable::NumBytes(TableOf(cache))),
          .prompt_page_tables = static_cast<int64_t>(
              DevicePageTable::NumBytes(TableOf(room.pool, layer_blocks))),
          .summary_table = BytesOf(summaries).table,
          .slots = BytesOf(SlotTablesFor(room))};
}

SlotCapacity RoomFor(const ModelConfig& config, Dtype kv_dtype,
                     const Selector& selector, const FarRequests& requests) {
  const std::optional<int> slot_tokens = SlotTokensOf(selector);
  CHECK(slot_tokens.has_value(), "selector {}", selector.name);
  const std::vector<int> frames = SlotFramesOf(
      selector, *slot_tokens, requests.context_tokens, requests.budget);
  const int64_t num_layer_blocks =
      std::accumulate(frames.begin(), frames.end(), int64_t{0});
  SlotCapacity room;
  room.pool.format =
      MakeHeadBlockFormat(kv_dtype, config.head_dim, config.head_dim);
  room.pool.format.slot_tokens = *slot_tokens;
  room.pool.num_layers = config.num_layers;
  room.pool.num_kv_heads = config.num_kv_heads;
  const int64_t num_near =
      NumNearKvBlocks(PagesFor(requests.context_tokens),
                      NearLayersOf(selector).size(), config.num_layers);
  room.pool.num_kv_blocks =
      requests.num_requests *
      (num_layer_blocks / config.num_layers + num_near + kTailPages);
  room.num_host_kv_blocks =
      requests.num_requests * PagesFor(requests.context_tokens);
  room.max_sequences = room.max_requests = requests.num_requests;
  room.layer_frames = *std::ranges::max_element(frames);
  room.AddLayersOf(selector);
  return room;
}

SummaryCacheOptions SummariesOf(const ModelConfig& config,
                                const Selector& selector,
                                const SlotCapacity& room,
                                int64_t context_tokens) {
  return SummariesFor(config, selector,
                      {.room = TableCapacityOf(room),
                       .max_requests = room.max_requests,
                       .max_tokens = context_tokens});
}

int64_t TokenTableBytes(const ModelConfig& config,
                        const FarRequests& requests) {
  return requests.num_requests * requests.context_tokens * config.num_layers *
         config.num_kv_heads * int64_t{sizeof(uint32_t)};
}

int64_t FlatTableBytes(const ModelConfig& config, const FarRequests& requests) {
  constexpr double kTokenBytes = 100e9 / (80.0 * 8 * 32 * (128 << 10));
  return static_cast<int64_t>(
      kTokenBytes / sizeof(uint32_t) *
      static_cast<double>(TokenTableBytes(config, requests)));
}

}  // namespace winnow
