// Where a selector's summaries of a layer lie, as kernels take them.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SUMMARY_ROWS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SUMMARY_ROWS_CUH_

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/step_rows.cuh"

namespace winnow::device {

// SummaryRows::Kind (backend/select_program.h).
enum class SummaryKind : uint8_t { kNone, kKeys, kMean, kMinMax, kCuboid };

// SummaryRows with its SummaryLayout::Level. A key's slot is its token, and a
// page stands for a segment.
struct SummaryLevel {
  SummaryKind kind;
  int tokens;      // that a row covers
  int stride;      // tokens from row to row
  int lead;        // row j stands at slot j + lead
  int rows_shift;  // log2 of a segment's rows
  int row_bytes;
  int64_t offset_bytes;

  // How many rows a row of the step at position `context - 1` sees.
  __device__ int NumVisible(int context) const {
    if (kind == SummaryKind::kNone || context < tokens) return 0;
    return (context - tokens) / stride + 1;
  }
};

// SummaryTable.
struct Summaries {
  SummaryLevel levels[2];
  std::byte* rows;
  int64_t segment_stride_bytes;
  int64_t head_bytes;
  const uint32_t* segments;  // [requests, max_segments]
  int64_t segments_stride;

  // REQUIRES: the request has the slot's segment.
  __device__ std::byte* Slot(int request, int head, int level, int slot) const {
    const SummaryLevel& of = levels[level];
    const uint32_t segment =
        segments[request * segments_stride + (slot >> of.rows_shift)];
    const int in_segment = slot & ((1 << of.rows_shift) - 1);
    return rows + segment * segment_stride_bytes + head * head_bytes +
           of.offset_bytes + int64_t{in_segment} * of.row_bytes;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SUMMARY_ROWS_CUH_
