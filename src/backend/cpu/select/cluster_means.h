// What is kept of clusters whose tokens are known: mean keys and values.
#ifndef WINNOW_BACKEND_CPU_SELECT_CLUSTER_MEANS_H_
#define WINNOW_BACKEND_CPU_SELECT_CLUSTER_MEANS_H_

#include "backend/backend.h"
#include "backend/contract/cluster_segment.h"

namespace winnow {

// One segment of a request and KV head, whose keys and values are in the pages.
struct ClusterTask {
  const SelectProgram& program;
  const SummaryTable& table;
  const LayerCache& cache;
  int request = 0;
  int head = 0;
  int64_t segment = 0;
};

// Writes the rows of the segment's clusters, and their values where the program
// estimates: float32 sums over ascending tokens, rounded once. Of a cluster
// without tokens all is zero.
void WriteClusterMeans(const ClusterTask& task);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_CLUSTER_MEANS_H_
