// Where the summaries of a step's requests lie, as plain data that kernels
// read: filled in by cache/.
#ifndef WINNOW_BACKEND_CONTRACT_SUMMARY_TABLE_H_
#define WINNOW_BACKEND_CONTRACT_SUMMARY_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/contract/row_table.h"
#include "backend/contract/select_program.h"
#include "tensor/view.h"

namespace winnow {

// Summaries are kept by segments of this many tokens or, where a row covers
// more, of one row's; so that the rows of consecutive partitions are adjacent:
// what a scan streams.
inline constexpr int kSegmentTokens = 1024;

// A row of float8_e4m3: its numbers, filled up to 4 bytes, then a float32, a
// power of two, whose multiples they are; NaN where one of them would be none.
inline constexpr int Float8RowBytes(int width) {
  return (width + 3) / 4 * 4 + 4;
}

// The bytes of one (segment, layer, KV head): the rows of `rows`, then those
// of `normalizer`. A row belongs to the segment of its last token, so that a
// segment is complete when its tokens are.
struct SummaryLayout {
  struct Level {
    int64_t offset_bytes = 0;
    int rows_per_segment = 0;
    int row_bytes = 0;
    // Row j stands at slot j + lead of the slots of all segments in a row.
    int lead = 0;
  };
  std::array<Level, 2> levels;
  // Which tokens clusters have, and what else is kept of them, behind the
  // levels: see cluster_segment.h. 0: none.
  int64_t ends_offset_bytes = 0;     // u32 [rows_per_segment]
  int64_t members_offset_bytes = 0;  // u16 [segment_tokens]
  int64_t values_offset_bytes = 0;   // [rows_per_segment, v_dim]
  int segment_tokens = kSegmentTokens;
  int64_t head_bytes = 0;  // of one (segment, layer, KV head); 0: no rows
};

// REQUIRES: strides divide the segment's tokens, and tokens of a row are
// multiples of its stride.
SummaryLayout MakeSummaryLayout(const SelectProgram& program, int k_dim,
                                int v_dim);

// Rows of `rows` that a row at position `context - 1` may see.
int64_t NumVisibleRows(const SummaryRows& rows, int64_t context);

// One layer's summaries, of one selector, of every request in a step.
struct SummaryTable {
  SummaryLayout layout;
  std::byte* rows = nullptr;
  int64_t segment_stride_bytes = 0;
  RowTable segments;  // by request, as many as it has tokens for

  // What is kept of a request's segment and KV head. REQUIRES: it has that
  // segment.
  std::byte* Segment(int request, int head, int64_t segment) const;
  // Row `index` of a level. REQUIRES: the request has that segment.
  std::byte* Row(int request, int head, int level, int64_t index) const;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_SUMMARY_TABLE_H_
