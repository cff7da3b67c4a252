#include "backend/contract/summary_table.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

SummaryLayout::Level LevelOf(const SummaryRows& rows, int k_dim,
                             int segment_tokens) {
  if (rows.kind == Kind::kNone || rows.kind == Kind::kKeys) return {};
  CHECK(rows.stride > 0 && segment_tokens % rows.stride == 0 &&
            rows.tokens % rows.stride == 0,
        "tokens={} stride={} segment_tokens={}", rows.tokens, rows.stride,
        segment_tokens);
  const bool is_bound =
      rows.kind == Kind::kMinMax || rows.kind == Kind::kCuboid;
  const int width = is_bound ? 2 * k_dim : k_dim;
  return {
      .offset_bytes = 0,
      .rows_per_segment = segment_tokens / rows.stride,
      .row_bytes = rows.dtype == Dtype::kFloat8E4M3
                       ? Float8RowBytes(width)
                       : width * DtypeBytes(rows.dtype),
      .lead = rows.kind == Kind::kClusters ? 0 : rows.tokens / rows.stride - 1};
}

}  // namespace

SummaryLayout MakeSummaryLayout(const SelectProgram& program, int k_dim,
                                int v_dim) {
  SummaryLayout layout;
  const bool clusters = program.rows.kind == Kind::kClusters;
  layout.segment_tokens =
      std::max({kSegmentTokens, program.rows.stride, program.normalizer.stride,
                clusters ? program.rows.tokens : 0});
  const int tokens = layout.segment_tokens;
  layout.levels = {LevelOf(program.rows, k_dim, tokens),
                   LevelOf(program.normalizer, k_dim, tokens)};
  for (SummaryLayout::Level& level : layout.levels) {
    level.offset_bytes = layout.head_bytes;
    layout.head_bytes += int64_t{level.rows_per_segment} * level.row_bytes;
  }
  if (!clusters) return layout;
  const int64_t num_rows = layout.levels[0].rows_per_segment;
  const auto take = [&layout](int64_t num_bytes) {
    constexpr int64_t kAlignment = 64;
    const int64_t offset = layout.head_bytes;
    layout.head_bytes += (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  };
  layout.ends_offset_bytes =
      take(num_rows * static_cast<int64_t>(sizeof(uint32_t)));
  layout.members_offset_bytes =
      take(tokens * static_cast<int64_t>(sizeof(uint16_t)));
  if (program.estimate.value > 0) {
    layout.values_offset_bytes =
        take(num_rows * v_dim * DtypeBytes(program.rows.dtype));
  }
  return layout;
}

int64_t NumVisibleRows(const SummaryRows& rows, int64_t context) {
  if (rows.kind == Kind::kNone || context < rows.tokens) return 0;
  if (rows.kind == Kind::kClusters) {
    return context / rows.tokens * (rows.tokens / rows.stride);
  }
  return (context - rows.tokens) / rows.stride + 1;
}

std::byte* SummaryTable::Segment(int request, int head, int64_t segment) const {
  return rows + int64_t{segments.At(request, segment)} * segment_stride_bytes +
         int64_t{head} * layout.head_bytes;
}

std::byte* SummaryTable::Row(int request, int head, int level,
                             int64_t index) const {
  const SummaryLayout::Level& of = layout.levels[static_cast<size_t>(level)];
  const int64_t slot = index + of.lead;
  return Segment(request, head, slot / of.rows_per_segment) + of.offset_bytes +
         slot % of.rows_per_segment * of.row_bytes;
}

}  // namespace winnow
