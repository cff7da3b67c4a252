#include "engine/part_options.h"

#include <algorithm>

namespace winnow {

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

Result<KvTierOptions> TierOptionsOf(const EngineOptions& options,
                                    const Backend& backend,
                                    const Model& model) {
  KvTierOptions tiers = {.max_model_len = options.max_model_len,
                         .max_num_seqs = options.max_num_seqs,
                         .max_requests = RunnerOptionsOf(options).max_requests,
                         .max_rows = options.max_num_batched_tokens,
                         .max_table_sharers = options.max_table_sharers,
                         .selectors = options.selectors,
                         .hints = options.hints,
                         .cache_budget = options.cache_budget,
                         .prefix_caching = options.prefix_caching,
                         .batch_invariant = options.batch_invariant};
  // The device's first: the host's takes of what that leaves.
  ASSIGN_OR_RETURN(tiers.num_pages,
                   KvPagesOf(options, model, backend.attributes()));
  ASSIGN_OR_RETURN(tiers.num_host_pages,
                   HostPagesOf(options, model, backend.attributes()));
  return tiers;
}

ResidencyOptions ResidencyOptionsOf(const EngineOptions& options) {
  return {.cache_budget = options.cache_budget,
          .write_behind_share = options.write_behind_share,
          .disk_patience = options.disk_patience};
}

DiskPrefixesOptions DiskOptionsOf(const EngineOptions& options,
                                  const Backend& backend, const Model& model) {
  return {.computed_by = backend.attributes().kernels,
          .batch_invariant = options.batch_invariant,
          .selectors = options.selectors,
          .check_made_with = [&model] { return model.weights().CheckFiles(); },
          .staging_bytes = options.disk_staging_bytes};
}

}  // namespace winnow
