// Where a selector's summaries of a layer lie, as kernels take them.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SUMMARY_ROWS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SUMMARY_ROWS_CUH_

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/rows/step_rows.cuh"

namespace winnow::device {

// SummaryRows::Kind (backend/contract/select_program.h).
enum class SummaryKind : uint8_t {
  kNone,
  kKeys,
  kMean,
  kMinMax,
  kCuboid,
  kGate,
  kClusters
};

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

  // How many rows there are among the first `context` tokens.
  __device__ int NumVisible(int context) const {
    if (kind == SummaryKind::kNone || context < tokens) return 0;
    if (kind == SummaryKind::kClusters) {
      return context / tokens * (tokens / stride);
    }
    return (context - tokens) / stride + 1;
  }
};

// What else is kept of clusters (backend/contract/cluster_segment.h), behind
// the levels of a segment of the table.
struct ClusterParts {
  int64_t ends_offset_bytes;
  int64_t members_offset_bytes;
  int64_t values_offset_bytes;  // 0: no values
  int shift;                    // log2 of a segment's clusters
};

// The tokens of one cluster: token_offset + members[i], i < count.
struct ClusterTokens {
  const uint16_t* members;
  int token_offset;
  int count;
};

// SummaryTable.
struct Summaries {
  SummaryLevel levels[2];
  ClusterParts clusters;  // where level 0 has them
  std::byte* rows;
  int64_t segment_stride_bytes;
  int64_t head_bytes;
  // A request's are segments[first_segment[request] + number].
  const int32_t* first_segment;  // [requests]
  const uint32_t* segments;

  // REQUIRES: the request has the slot's segment.
  __device__ std::byte* Slot(int request, int head, int level, int slot) const {
    const SummaryLevel& of = levels[level];
    const int in_segment = slot & ((1 << of.rows_shift) - 1);
    return Segment(request, head, slot >> of.rows_shift) + of.offset_bytes +
           int64_t{in_segment} * of.row_bytes;
  }
  // What is kept of a segment of the table, which it has.
  __device__ std::byte* Segment(int request, int head, int number) const {
    const uint32_t segment = segments[first_segment[request] + number];
    return rows + segment * segment_stride_bytes + head * head_bytes;
  }

  // Where row `cluster` stands: its segment of the table, and its number there.
  struct ClusterPlace {
    std::byte* segment;
    int index;
  };
  __device__ ClusterPlace Place(int request, int head, int cluster) const {
    const int shift = levels[0].rows_shift;
    return {Segment(request, head, cluster >> shift),
            cluster & ((1 << shift) - 1)};
  }
  __device__ uint32_t* Ends(const ClusterPlace& place) const {
    return reinterpret_cast<uint32_t*>(place.segment +
                                       clusters.ends_offset_bytes) +
           place.index;
  }
  // Into the members of its own segment of tokens.
  __device__ int BeginOf(const ClusterPlace& place) const {
    const bool is_first = (place.index & ((1 << clusters.shift) - 1)) == 0;
    return is_first ? 0 : static_cast<int>(Ends(place)[-1]);
  }
  __device__ uint16_t* Members(const ClusterPlace& place) const {
    return reinterpret_cast<uint16_t*>(place.segment +
                                       clusters.members_offset_bytes) +
           int64_t{place.index >> clusters.shift} * levels[0].tokens;
  }
  __device__ std::byte* Value(const ClusterPlace& place,
                              int64_t value_bytes) const {
    return place.segment + clusters.values_offset_bytes +
           place.index * value_bytes;
  }
  __device__ int NumTokensOf(int request, int head, int cluster) const {
    const ClusterPlace place = Place(request, head, cluster);
    return static_cast<int>(*Ends(place)) - BeginOf(place);
  }
  __device__ ClusterTokens TokensOf(int request, int head, int cluster) const {
    const ClusterPlace place = Place(request, head, cluster);
    const int begin = BeginOf(place);
    return {Members(place) + begin,
            (cluster >> clusters.shift) * levels[0].tokens,
            static_cast<int>(*Ends(place)) - begin};
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SUMMARY_ROWS_CUH_
