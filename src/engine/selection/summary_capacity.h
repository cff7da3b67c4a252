// What summaries a selector keeps, by what device and host hold.
#ifndef WINNOW_ENGINE_SELECTION_SUMMARY_CAPACITY_H_
#define WINNOW_ENGINE_SELECTION_SUMMARY_CAPACITY_H_

#include "backend/contract/fixed_table.h"
#include "cache/device/summary_cache.h"
#include "kv/table_capacity.h"
#include "model/config/config.h"
#include "sparse/spec/selector.h"

namespace winnow {

struct SummaryLimits {
  TableCapacity room;
  int max_requests = 0;    // in one step
  int64_t max_tokens = 0;  // of a sequence
};

// What the summaries of one selector take: pages of the host count where its
// requests may have slots. head_bytes is 0 where it keeps none.
SummaryCacheOptions SummariesFor(const ModelConfig& config,
                                 const Selector& selector,
                                 const SummaryLimits& limits);

// What the choices take that it fixes, but for the queries that make them.
// head_bytes is 0 where it fixes none.
SummaryCacheOptions FixedWordsFor(const ModelConfig& config,
                                  const FixedLayout& layout,
                                  const SummaryLimits& limits);

// The queries, a slot a sequence. head_bytes is 0 where none are kept.
SummaryCacheOptions FixedQueriesFor(const ModelConfig& config,
                                    const FixedLayout& layout,
                                    const SummaryLimits& limits);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SELECTION_SUMMARY_CAPACITY_H_
