#include "engine/residency/kv_tiers.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace winnow {
namespace {

Result<std::unique_ptr<DeviceCache>> MakeCache(Backend& backend,
                                               const Model& model,
                                               const KvTierOptions& options,
                                               const TableCapacity& room,
                                               std::optional<int> slot_tokens) {
  const ModelConfig& config = model.config();
  DeviceCacheOptions cache;
  cache.format =
      MakeHeadBlockFormat(model.dtypes().kv, config.head_dim, config.head_dim);
  cache.format.slot_tokens = slot_tokens.value_or(kPageTokens);
  cache.num_layers = config.num_layers;
  cache.num_kv_heads = config.num_kv_heads;
  cache.num_kv_blocks = room.num_kv_blocks;
  cache.max_requests = options.max_num_seqs;
  // Where there are slots, a request may have more pages than the device.
  cache.max_pages_per_request =
      static_cast<int>(PagesFor(options.max_model_len));
  if (!slot_tokens) {
    cache.max_pages_per_request = static_cast<int>(
        std::min<int64_t>(room.num_kv_blocks, cache.max_pages_per_request));
  }
  cache.num_table_pages =
      std::min(NumTablePages(room),
               int64_t{options.max_num_seqs} * cache.max_pages_per_request);
  return DeviceCache::Create(backend, cache);
}

// None where all pages of running requests are whole.
Result<std::optional<int>> SlotTokensFor(const KvTierOptions& options,
                                         const SelectorSet& selectors) {
  const std::optional<int> tokens = RequestSlots::SlotTokens(selectors);
  if (options.cache_budget && !tokens) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "cache-budget needs a selector that reads a part by summaries, has {}",
        options.selectors.empty()
            ? "none"
            : fmt::format("{}", fmt::join(options.selectors, " ")));
  }
  return options.num_host_pages > 0 ? tokens : std::nullopt;
}

RequestSlots::Memory MemoryOf(Backend& backend, const KvTiers& tiers) {
  return {.backend = backend,
          .device = *tiers.cache,
          .host = *tiers.host,
          .kv = *tiers.kv};
}

Status AddSlots(Backend& backend, const Model& model,
                const KvTierOptions& options, KvTiers& tiers) {
  const RequestSlots::Memory memory = MemoryOf(backend, tiers);
  ASSIGN_OR_RETURN(
      tiers.slots,
      RequestSlots::Create(
          memory, *tiers.selectors,
          {.budget = options.cache_budget.value_or(kDefaultCacheBudget),
           .max_model_len = options.max_model_len,
           .max_sequences = options.max_num_seqs,
           .max_requests = options.max_requests}));
  ASSIGN_OR_RETURN(tiers.layerwise,
                   LayerwisePrompts::Create(
                       memory, *tiers.selectors, *tiers.slots,
                       {.max_requests = options.max_requests,
                        .max_pages_per_request =
                            static_cast<int>(PagesFor(options.max_model_len)),
                        .hidden_size = model.config().hidden_size}));
  return Ok{};
}

}  // namespace

Result<KvTiers> MakeKvTiers(Backend& backend, const Model& model,
                            const KvTierOptions& options,
                            const RestoreRates& rates) {
  KvTiers tiers;
  TableCapacity room = {.num_kv_blocks = options.num_pages,
                        .num_host_kv_blocks = options.num_host_pages,
                        .max_sequences = options.max_num_seqs,
                        .max_sharers = options.max_table_sharers};
  const SelectorSetOptions selector_options = {
      .specs = options.selectors,
      .max_model_len = options.max_model_len,
      .max_requests = options.max_requests,
      .max_rows = options.max_rows,
      .room = room};
  ASSIGN_OR_RETURN(tiers.selectors,
                   SelectorSet::Create(backend, model, selector_options));
  ASSIGN_OR_RETURN(const std::optional<int> slot_tokens,
                   SlotTokensFor(options, *tiers.selectors));
  if (slot_tokens) {
    RETURN_IF_ERROR(tiers.selectors->AddHints(backend, model, selector_options,
                                              options.hints));
  } else {
    room.num_host_kv_blocks = 0;
  }
  ASSIGN_OR_RETURN(tiers.cache,
                   MakeCache(backend, model, options, room, slot_tokens));
  ASSIGN_OR_RETURN(tiers.host,
                   HostPool::Create(backend, tiers.cache->pool(),
                                    {.num_kv_blocks = options.num_host_pages}));
  tiers.kv = std::make_unique<KvCache>(options.num_pages, kPageTokens,
                                       options.num_host_pages);
  tiers.prefixes = std::make_unique<PrefixCache>(
      *tiers.kv, *tiers.selectors,
      PrefixCache::Options{.enabled = options.prefix_caching,
                           .batch_invariant = options.batch_invariant,
                           .page_bytes = tiers.host->kv_block_bytes(),
                           .restore_rates = &rates});
  if (slot_tokens) {
    RETURN_IF_ERROR(AddSlots(backend, model, options, tiers));
  } else {
    const RequestSlots::Memory memory = MemoryOf(backend, tiers);
    tiers.slots = RequestSlots::None(memory, *tiers.selectors);
    tiers.layerwise =
        LayerwisePrompts::None(memory, *tiers.selectors, *tiers.slots);
  }
  return tiers;
}

}  // namespace winnow
