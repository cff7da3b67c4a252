#include "backend/contract/cluster_segment.h"

#include "base/check.h"

namespace winnow {

ClusterSegment ClusterSegmentOf(const SummaryTable& table,
                                const SummaryRows& rows, int request, int head,
                                int64_t segment) {
  const SummaryLayout& layout = table.layout;
  const int64_t segments_each = layout.segment_tokens / rows.tokens;
  const int64_t place = segment % segments_each;
  const int num_clusters = rows.tokens / rows.stride;
  std::byte* memory = table.Segment(request, head, segment / segments_each);
  return {
      .first_token = segment * rows.tokens,
      .first_row = segment * num_clusters,
      .num_clusters = num_clusters,
      .ends = reinterpret_cast<uint32_t*>(memory + layout.ends_offset_bytes) +
              place * num_clusters,
      .members =
          reinterpret_cast<uint16_t*>(memory + layout.members_offset_bytes) +
          place * rows.tokens};
}

std::byte* ClusterValue(const SummaryTable& table, int request, int head,
                        int64_t row, int64_t value_bytes) {
  const SummaryLayout& layout = table.layout;
  CHECK(layout.values_offset_bytes > 0, "row={}: no value is kept", row);
  const int64_t rows_each = layout.levels[0].rows_per_segment;
  return table.Segment(request, head, row / rows_each) +
         layout.values_offset_bytes + row % rows_each * value_bytes;
}

}  // namespace winnow
