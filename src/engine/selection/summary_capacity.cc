#include "engine/selection/summary_capacity.h"

#include "engine/selection/slot_tokens.h"

namespace winnow {
namespace {

// All but what is kept, and how much.
SummaryCacheOptions OptionsFor(const ModelConfig& config,
                               const SummaryLimits& limits) {
  SummaryCacheOptions options;
  options.num_layers = config.num_layers;
  options.num_kv_heads = config.num_kv_heads;
  options.max_requests = limits.max_requests;
  return options;
}

SummaryCapacity RoomOf(const SummaryCacheOptions& options,
                       const SummaryLimits& limits) {
  return {.tables = limits.room,
          .segment_tokens = options.layout.segment_tokens,
          .max_tokens = limits.max_tokens};
}

}  // namespace

SummaryCacheOptions SummariesFor(const ModelConfig& config,
                                 const Selector& selector,
                                 const SummaryLimits& limits) {
  SummaryCacheOptions options = OptionsFor(config, limits);
  if (selector.is_dense()) return options;
  options.layout =
      MakeSummaryLayout(selector.program, config.head_dim, config.head_dim);
  if (options.layout.head_bytes == 0) return options;
  SummaryCapacity room = RoomOf(options, limits);
  options.num_table_entries = NumSummaryTableEntries(room);
  // Who has no slots has whole pages alone.
  if (!SlotTokensOf(selector)) room.tables.num_host_kv_blocks = 0;
  options.num_segments = NumSummarySegments(room);
  return options;
}

SummaryCacheOptions FixedWordsFor(const ModelConfig& config,
                                  const FixedLayout& layout,
                                  const SummaryLimits& limits) {
  SummaryCacheOptions options = OptionsFor(config, limits);
  options.layout.segment_tokens = kFixedSegmentPages * kPageTokens;
  options.layout.head_bytes = layout.words_bytes;
  const SummaryCapacity room = RoomOf(options, limits);
  options.num_table_entries = NumSummaryTableEntries(room);
  options.num_segments = NumFixedSegments(room);
  return options;
}

// A slot is a segment that holds any sequence: it is forked, copied on write
// and freed by the same rules. Nobody has two, and nobody is open but those who
// run (Admission) and as many prefixes that are held (Engine::AddPrefix), so
// there is always one.
SummaryCacheOptions FixedQueriesFor(const ModelConfig& config,
                                    const FixedLayout& layout,
                                    const SummaryLimits& limits) {
  SummaryCacheOptions options = OptionsFor(config, limits);
  // One token more than any sequence has, so that it never needs a second.
  options.layout.segment_tokens = static_cast<int>(limits.max_tokens) + 1;
  options.layout.head_bytes = layout.queries_bytes;
  options.num_segments = 2 * int64_t{limits.room.max_sequences};
  options.num_table_entries = limits.max_requests;
  return options;
}

}  // namespace winnow
