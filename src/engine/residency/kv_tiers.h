// KvTiers: the pools, tables and caches that hold KV on the device and host.
#ifndef WINNOW_ENGINE_RESIDENCY_KV_TIERS_H_
#define WINNOW_ENGINE_RESIDENCY_KV_TIERS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/device/device_cache.h"
#include "cache/host/host_pool.h"
#include "engine/residency/layerwise_prompts.h"
#include "engine/residency/prefix_cache.h"
#include "engine/residency/request_slots.h"
#include "engine/schedule/restore_cost.h"
#include "engine/selection/selector_set.h"
#include "kv/kv_cache.h"
#include "kv/table_capacity.h"

namespace winnow {

struct KvTierOptions {
  int64_t num_pages = 0;
  int64_t num_host_pages = 0;  // 0: there is no host
  int max_model_len = 0;
  int max_num_seqs = 0;
  int max_requests = 0;  // in one step
  int max_rows = 0;      // a step
  int max_table_sharers = kTableSharers;
  std::vector<std::string> selectors = {};
  HintOptions hints = {};
  std::optional<CacheBudget> cache_budget = {};
  bool prefix_caching = true;
  bool batch_invariant = false;
};

// Plain data: owns what each tier needs. A tier that is absent is there all the
// same, as an object that holds nothing: a host of no pages, slots that serve
// no request. Each part refers to those above it.
struct KvTiers {
  std::unique_ptr<DeviceCache> cache;
  std::unique_ptr<HostPool> host;
  std::unique_ptr<KvCache> kv;
  std::unique_ptr<SelectorSet> selectors;
  std::unique_ptr<PrefixCache> prefixes;
  std::unique_ptr<RequestSlots> slots;
  std::unique_ptr<LayerwisePrompts> layerwise;
};

// Fails where an option is wrong, or memory does not suffice; the error names
// field, limit and value. REQUIRES: backend, model and rates outlive the tiers.
Result<KvTiers> MakeKvTiers(Backend& backend, const Model& model,
                            const KvTierOptions& options,
                            const RestoreRates& rates);

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_KV_TIERS_H_
