// What rows choose of clusters and read of them, in float64, from what
// ClusterKeys has left in the summaries.
#ifndef WINNOW_BACKEND_CONFORMANCE_CLUSTER_ORACLE_H_
#define WINNOW_BACKEND_CONFORMANCE_CLUSTER_ORACLE_H_

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "backend/conformance/sparse_case.h"

namespace winnow {

// A cluster of a request and KV head.
struct KeptCluster {
  std::vector<int64_t> tokens;
  std::vector<double> key, value;  // value: where the program estimates
};
// By request and KV head.
using KeptClusters = std::map<std::pair<size_t, int>, std::vector<KeptCluster>>;

// What the last program keeps of its requests' clusters. REQUIRES: `table` is
// the host's.
KeptClusters CollectClusters(const SparseCase& sparse,
                             const SummaryTable& table);

// A row of the step with one of its lists.
struct ListOfRow {
  const SparseCase& sparse;
  size_t request;
  int64_t row;
  int64_t context;
  int list;
  int num_lists;

  int first_head() const {
    return list * sparse.paged.shape().num_q_heads() / num_lists;
  }
  int end_head() const {
    return (list + 1) * sparse.paged.shape().num_q_heads() / num_lists;
  }
  int kv_head() const {
    return first_head() / sparse.paged.shape().group_heads;
  }
};

// A score, and how far float32 may take a backend from it.
struct ClusterScore {
  double value = -std::numeric_limits<double>::infinity();
  double slack = 0;
  double high() const { return value + slack; }
  double low() const { return value - slack; }
};

// Scores of the first `count` clusters; -infinity of those without tokens.
// Written from the comments of select_program.h, and not from a backend.
std::vector<ClusterScore> ScoreClusters(
    const ListOfRow& of, const std::vector<KeptCluster>& clusters,
    size_t count);

// Attention of one head over the tokens that are read and the clusters that
// stand for theirs.
struct ExpectedRow {
  double lse = 0;
  std::vector<double> out, magnitude;
};

ExpectedRow Attend(const ListOfRow& of, int head,
                   const std::vector<KeptCluster>& clusters,
                   const std::vector<bool>& tokens,
                   const std::vector<int32_t>& estimates);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_CLUSTER_ORACLE_H_
