// What the tables take that lead to KV: worked out by what makes them.
#ifndef WINNOW_ENGINE_RESIDENCY_KV_TABLES_H_
#define WINNOW_ENGINE_RESIDENCY_KV_TABLES_H_

#include "engine/residency/slot_capacity.h"
#include "engine/selection/summary_capacity.h"
#include "model/config/config.h"

namespace winnow {

// On the device, in bytes. Summaries are none of it: they are what a selector
// keeps of keys, not where these lie; where they lie themselves is.
struct KvTablesBytes {
  int64_t page_tables = 0;         // of requests
  int64_t prompt_page_tables = 0;  // of those that are read layer by layer
  int64_t summary_table = 0;
  SlotTablesBytes slots;

  int64_t total() const {
    return page_tables + prompt_page_tables + summary_table + slots.total();
  }
};
// Of an engine with one selector.
KvTablesBytes KvTablesOf(const SlotCapacity& room,
                         const SummaryCacheOptions& summaries);

// Requests of so many tokens each, whose pages lie on the host but for the last
// ones, and which have slots by a cache budget.
struct FarRequests {
  int num_requests = 0;
  int64_t context_tokens = 0;  // of each
  CacheBudget budget = kDefaultCacheBudget;
};
// Device and host that hold these and nothing else. REQUIRES: the selector can
// do with slots, and was made for such contexts.
SlotCapacity RoomFor(const ModelConfig& config, Dtype kv_dtype,
                     const Selector& selector, const FarRequests& requests);

// Of the same, what the selector keeps of their keys.
SummaryCacheOptions SummariesOf(const ModelConfig& config,
                                const Selector& selector,
                                const SlotCapacity& room,
                                int64_t context_tokens);

// What a number of 4 bytes would take for every token of every (layer, KV head)
// of these: the least that a table by tokens could be.
int64_t TokenTableBytes(const ModelConfig& config, const FarRequests& requests);

// What SPIN's flat tables would take, by which it counts how much smaller its
// own are (arXiv 2604.26837): up to 100 GB of Llama-3.1-70B (80 layers, 8 KV
// heads) for 32 requests of 128K, so 37 bytes for a token of a (layer, KV
// head), in four tables.
int64_t FlatTableBytes(const ModelConfig& config, const FarRequests& requests);

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_KV_TABLES_H_
