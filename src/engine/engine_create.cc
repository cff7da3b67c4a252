// Puts an engine together.
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/selection/slot_tokens.h"

namespace winnow {
namespace {

Result<std::unique_ptr<DeviceCache>> MakeCache(Backend& backend,
                                               const Model& model,
                                               const EngineOptions& options,
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

RunnerOptions RunnerOptionsOf(const EngineOptions& options) {
  return {.max_rows = options.max_num_batched_tokens,
          .max_requests =
              std::min(options.max_num_seqs, options.max_num_batched_tokens),
          .max_model_len = options.max_model_len,
          .batch_invariant = options.batch_invariant,
          .layer_ranges = options.layers_per_step > 0,
          .watch = {.max_rows = options.max_watched_requests,
                    .max_ranges = options.max_read_ranges},
          .max_scored_rows = std::min(options.max_scored_rows,
                                      options.max_num_batched_tokens)};
}

// None where all pages of running requests are whole.
Result<std::optional<int>> SlotTokensOf(const EngineOptions& options,
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
  return options.host_kv_bytes > 0 ? tokens : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Create(
    Backend& backend, const Model& model, const EngineOptions& given,
    std::unique_ptr<DiskStore> disk) {
  ASSIGN_OR_RETURN(const EngineOptions options,
                   ResolveOptions(given, model.config()));
  RETURN_IF_ERROR(CheckDtypes(model.dtypes()));
  const RunnerOptions runner_options = RunnerOptionsOf(options);
  // The device's first: the host's takes of what that leaves.
  ASSIGN_OR_RETURN(const int64_t num_pages,
                   KvPagesOf(options, model, backend.attributes()));
  ASSIGN_OR_RETURN(const int64_t num_host_pages,
                   HostPagesOf(options, model, backend.attributes()));
  TableCapacity room = {.num_kv_blocks = num_pages,
                        .num_host_kv_blocks = num_host_pages,
                        .max_sequences = options.max_num_seqs,
                        .max_sharers = options.max_table_sharers};
  const SelectorSetOptions selector_options = {
      .specs = options.selectors,
      .max_model_len = options.max_model_len,
      .max_requests = runner_options.max_requests,
      .max_rows = options.max_num_batched_tokens,
      .room = room};
  ASSIGN_OR_RETURN(std::unique_ptr<SelectorSet> selectors,
                   SelectorSet::Create(backend, model, selector_options));
  ASSIGN_OR_RETURN(const std::optional<int> slot_tokens,
                   SlotTokensOf(options, *selectors));
  if (slot_tokens) {
    RETURN_IF_ERROR(
        selectors->AddHints(backend, model, selector_options, options.hints));
  }
  if (!slot_tokens) room.num_host_kv_blocks = 0;
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceCache> cache,
                   MakeCache(backend, model, options, room, slot_tokens));
  std::unique_ptr<HostPool> host;
  if (num_host_pages > 0) {
    ASSIGN_OR_RETURN(host, HostPool::Create(backend, cache->pool(),
                                            {.num_kv_blocks = num_host_pages}));
  }
  std::unique_ptr<Engine> engine(
      new Engine(backend, model, options, std::move(cache), std::move(host)));
  engine->selectors_ = std::move(selectors);
  engine->prefixes_ = std::make_unique<PrefixCache>(
      engine->kv_, *engine->selectors_,
      PrefixCache::Options{.enabled = options.prefix_caching,
                           .batch_invariant = options.batch_invariant,
                           .page_bytes = engine->limits_.page_bytes,
                           .restore_rates = &engine->restore_rates_});
  if (slot_tokens) RETURN_IF_ERROR(engine->AddSlots());
  ASSIGN_OR_RETURN(
      engine->runner_,
      Runner::Create(backend, model, *engine->cache_, *engine->selectors_,
                     {.slots = engine->slots_.get(),
                      .layerwise = engine->layerwise_.get()},
                     runner_options));
  if (disk != nullptr) RETURN_IF_ERROR(engine->AddDisk(std::move(disk)));
  RETURN_IF_ERROR(engine->BeginRates());
  return engine;
}

Status Engine::AddSlots() {
  const RequestSlots::Memory memory = {
      .backend = backend_, .device = *cache_, .host = *host_, .kv = kv_};
  ASSIGN_OR_RETURN(
      slots_,
      RequestSlots::Create(
          memory, *selectors_,
          {.budget = options_.cache_budget.value_or(kDefaultCacheBudget),
           .max_model_len = options_.max_model_len,
           .max_sequences = options_.max_num_seqs,
           .max_requests = RunnerOptionsOf(options_).max_requests}));
  ASSIGN_OR_RETURN(layerwise_,
                   LayerwisePrompts::Create(
                       memory, *selectors_, *slots_,
                       {.max_requests = RunnerOptionsOf(options_).max_requests,
                        .max_pages_per_request =
                            static_cast<int>(PagesFor(options_.max_model_len)),
                        .hidden_size = model_.config().hidden_size}));
  return Ok{};
}

}  // namespace winnow
