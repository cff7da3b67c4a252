// ClusterSegment: which tokens the clusters of a segment have.
#ifndef WINNOW_BACKEND_CONTRACT_CLUSTER_SEGMENT_H_
#define WINNOW_BACKEND_CONTRACT_CLUSTER_SEGMENT_H_

#include <span>

#include "backend/contract/summary_table.h"

namespace winnow {

// Of one request, KV head and segment of a program's clusters, as ClusterKeys
// leaves it in the summaries. Bytes of K and V stay in token order: a cluster's
// tokens are a list, ascending, and no range.
struct ClusterSegment {
  int64_t first_token = 0;  // of the request
  int64_t first_row = 0;    // of the summaries: the first cluster's
  int num_clusters = 0;
  uint32_t* ends = nullptr;     // [num_clusters]: into members
  uint16_t* members = nullptr;  // [tokens]: less first_token, by cluster

  // The tokens of cluster `cluster`, less first_token.
  std::span<const uint16_t> TokensOf(int cluster) const {
    const uint32_t begin = cluster == 0 ? 0 : ends[cluster - 1];
    return {members + begin, ends[cluster] - begin};
  }
};

// REQUIRES: rows are kClusters, and the request has the segment's summaries.
ClusterSegment ClusterSegmentOf(const SummaryTable& table,
                                const SummaryRows& rows, int request, int head,
                                int64_t segment);

// The mean value of a cluster, [v_dim] of the rows' dtype. REQUIRES: the
// program estimates.
std::byte* ClusterValue(const SummaryTable& table, int request, int head,
                        int64_t row, int64_t value_bytes);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_CLUSTER_SEGMENT_H_
