#include <bit>

#include "backend/cuda/select/select.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

// The device's enums are the host's, number for number.
template <typename To, typename From>
constexpr To As(From value) {
  return static_cast<To>(value);
}
static_assert(As<device::SummaryKind>(Kind::kClusters) ==
              device::SummaryKind::kClusters);
static_assert(As<device::FixedKind>(FixedChoice::Kind::kOutliers) ==
              device::FixedKind::kOutliers);
static_assert(As<device::Scope>(Scope::kLayer) == device::Scope::kLayer);
static_assert(As<device::HeadMap>(HeadMap::kExpMinusLse) ==
              device::HeadMap::kExpMinusLse);
static_assert(As<device::Reduction>(Reduction::kSum) ==
              device::Reduction::kSum);

int Log2(int power) {
  CHECK(power > 0 && std::has_single_bit(static_cast<unsigned>(power)),
        "rows of a segment={} are no power of two", power);
  return std::countr_zero(static_cast<unsigned>(power));
}

device::SummaryLevel DeviceLevel(const SummaryRows& rows,
                                 const SummaryLayout::Level& layout,
                                 const LayerCache& cache) {
  device::SummaryLevel level = {};
  level.kind = As<device::SummaryKind>(rows.kind);
  if (rows.kind == Kind::kNone) return level;
  level.tokens = rows.tokens;
  level.stride = rows.stride;
  if (rows.kind == Kind::kKeys) {
    CHECK(rows.tokens == 1 && rows.stride == 1, "keys: tokens={} stride={}",
          rows.tokens, rows.stride);
    level.rows_shift = Log2(kPageTokens);
    level.row_bytes = cache.format.k_dim * DtypeBytes(cache.format.k);
    return level;
  }
  level.lead = layout.lead;
  level.rows_shift = Log2(layout.rows_per_segment);
  level.row_bytes = layout.row_bytes;
  level.offset_bytes = layout.offset_bytes;
  return level;
}

device::FixedTable DeviceFixed(const SelectProgram& program,
                               const FixedTable& table) {
  device::FixedTable fixed = {};
  fixed.kind = As<device::FixedKind>(program.fixed.kind);
  if (program.fixed.kind == FixedChoice::Kind::kNone) return fixed;
  const FixedLayout& layout = table.layout;
  static_assert(device::kFixedSegmentPages == kFixedSegmentPages);
  fixed.words = table.words;
  fixed.segment_stride_bytes = table.segment_stride_bytes;
  fixed.words_bytes = layout.words_bytes;
  fixed.first_segment = table.segments.first.As<int32_t>();
  fixed.segments = table.segments.entries.As<uint32_t>();
  if (layout.queries_bytes > 0) {
    fixed.slots = table.slots;
    fixed.slot_stride_bytes = table.slot_stride_bytes;
    fixed.queries_bytes = layout.queries_bytes;
    fixed.first_slot = table.slot_of_request.first.As<int32_t>();
    fixed.slot_of_request = table.slot_of_request.entries.As<uint32_t>();
  }
  fixed.num_lists = layout.num_lists;
  fixed.window_tokens = layout.window_tokens;
  fixed.group_heads = layout.group_heads;
  return fixed;
}

int Blocks(int tokens, int block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace

const SummaryRows& LevelRows(const SelectProgram& program, int level) {
  return level == 0 ? program.rows : program.normalizer;
}

Dtype LevelDtype(const SelectProgram& program, int level,
                 const LayerCache& cache) {
  const SummaryRows& rows = LevelRows(program, level);
  return rows.kind == Kind::kKeys ? cache.format.k : rows.dtype;
}

int NumChoices(const SelectProgram& program, int num_q_heads,
               const LayerCache& cache) {
  switch (program.scope) {
    case Scope::kQHead:
      return num_q_heads;
    case Scope::kKvHead:
      return cache.num_kv_heads;
    case Scope::kLayer:
      return 1;
  }
  CHECK(false, "scope={}", static_cast<int>(program.scope));
}

int64_t MaxSlots(const SelectProgram& program, int level, int64_t max_context) {
  const SummaryRows& rows = LevelRows(program, level);
  const int64_t num_rows = NumVisibleRows(rows, max_context);
  return num_rows == 0 ? 0 : num_rows + rows.tokens / rows.stride - 1;
}

device::Summaries DeviceSummaries(const SelectProgram& program,
                                  const SummaryTable& table,
                                  const LayerCache& cache) {
  device::Summaries summaries = {};
  for (int level = 0; level < 2; ++level) {
    summaries.levels[level] =
        DeviceLevel(LevelRows(program, level),
                    table.layout.levels[static_cast<size_t>(level)], cache);
  }
  if (table.layout.head_bytes == 0) return summaries;
  if (program.rows.kind == Kind::kClusters) {
    summaries.clusters = {
        .ends_offset_bytes = table.layout.ends_offset_bytes,
        .members_offset_bytes = table.layout.members_offset_bytes,
        .values_offset_bytes = table.layout.values_offset_bytes,
        .shift = Log2(program.rows.tokens / program.rows.stride)};
  }
  summaries.rows = table.rows;
  summaries.segment_stride_bytes = table.segment_stride_bytes;
  summaries.head_bytes = table.layout.head_bytes;
  summaries.first_segment = table.segments.first.As<int32_t>();
  summaries.segments = table.segments.entries.As<uint32_t>();
  return summaries;
}

device::GateSide DeviceGate(const View& weights, const View& norm) {
  CHECK(weights.stride[2] == 1 && weights.stride[1] == weights.dim(2) &&
            weights.dtype == Dtype::kFloat32,
        "gate {}", ToString(weights));
  return {.weights = weights.As<float>(),
          .head_stride = weights.stride[0],
          .norm = norm.empty() ? nullptr : norm.As<float>(),
          .num_inputs = static_cast<int>(weights.dim(1)),
          .k_dim = static_cast<int>(weights.dim(2)),
          .epsilon = GateWeights::kNormEpsilon};
}

device::Lists DeviceChosenLists(const PickLists& picks) {
  CHECK(picks.picks.stride[0] % 2 == 0 && picks.picks.stride[1] % 2 == 0 &&
            picks.picks.stride[2] == 2,
        "picks {}", ToString(picks.picks));
  const bool keeps = !picks.num_kept.empty();
  const bool estimates = !picks.estimates.empty();
  const bool counts_estimates = !picks.num_estimates.empty();
  return {.picks = reinterpret_cast<uint2*>(picks.picks.As<uint32_t>()),
          .num_picks = picks.num_picks.As<int32_t>(),
          .num_lists = picks.num_lists.As<int32_t>(),
          .num_kept = keeps ? picks.num_kept.As<int32_t>() : nullptr,
          .picks_row_stride = picks.picks.stride[0] / 2,
          .picks_list_stride = picks.picks.stride[1] / 2,
          .num_picks_stride = picks.num_picks.stride[0],
          .num_kept_stride = keeps ? picks.num_kept.stride[0] : 0,
          .capacity = picks.capacity(),
          .first_row = picks.first_row,
          .estimates = estimates ? picks.estimates.As<int32_t>() : nullptr,
          .num_estimates =
              counts_estimates ? picks.num_estimates.As<int32_t>() : nullptr,
          .estimates_row_stride = estimates ? picks.estimates.stride[0] : 0,
          .estimates_list_stride = estimates ? picks.estimates.stride[1] : 0,
          .num_estimates_stride =
              counts_estimates ? picks.num_estimates.stride[0] : 0,
          .estimates_capacity = estimates ? picks.estimates.dim(2) : 0};
}

device::Selector DeviceSelector(const LayerSelector& selector,
                                const LayerCache& cache) {
  device::Selector of = {};
  if (selector.program == nullptr) return of;
  const SelectProgram& program = *selector.program;
  // An engine has refused it at start.
  CHECK((FeaturesOf(program) & ~kCudaSelectFeatures) == 0,
        "CUDA does not run features {:#x}",
        FeaturesOf(program) & ~kCudaSelectFeatures);
  of.has_program = true;
  of.scope = As<device::Scope>(program.scope);
  of.map = As<device::HeadMap>(program.map);
  of.group = As<device::Reduction>(program.group);
  of.pool = As<device::Reduction>(program.pool.reduction);
  of.pool_size = program.pool.size;
  of.pool_stride = program.pool.stride;
  of.pool_pad = program.pool.pad;
  of.rounds_to_bfloat16 = program.rounds_to_bfloat16;
  of.open_scores_zero = program.open_scores_zero;
  of.block_tokens = program.block_tokens;
  of.sink_blocks = Blocks(program.forced.sink_tokens, program.block_tokens);
  of.recent_blocks = Blocks(program.forced.recent_tokens, program.block_tokens);
  of.inside_budget = program.forced.inside_budget;
  of.budget_is_share = program.budget.unit == Amount::Unit::kShare;
  of.budget = program.budget.value;
  of.by_threshold = program.rule == Rule::kThreshold;
  of.threshold = program.threshold;
  of.sink_tokens = program.forced.sink_tokens;
  of.recent_tokens = program.forced.recent_tokens;
  of.cuts_tokens = program.rule == Rule::kTokens;
  of.estimate_is_share = program.estimate.unit == Amount::Unit::kShare;
  of.estimate = program.estimate.value;
  of.fixed_is_share = program.fixed.budget.unit == Amount::Unit::kShare;
  of.fixed_budget = program.fixed.budget.value;
  of.fixed = DeviceFixed(program, selector.fixed);
  of.in_prompt = program.in_prompt;
  of.dense_len = program.dense_len;
  of.keeps_lists = selector.keeps_lists;
  of.reuses_lists = selector.reuse_layer >= 0;
  of.summaries = DeviceSummaries(program, selector.summaries, cache);
  return of;
}

}  // namespace winnow
