// ClusterKeys on the CPU: clusters of the segments that a step completes.
#ifndef WINNOW_BACKEND_CPU_SELECT_CLUSTER_KEYS_H_
#define WINNOW_BACKEND_CPU_SELECT_CLUSTER_KEYS_H_

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/select/key_clusters.h"
#include "base/thread_pool.h"

namespace winnow {

// Owns each worker's scratch; borrows the pool. Called by the backend's thread.
class SegmentIndex {
 public:
  // The truth, or by a set's kernels where `kernels` is not null. REQUIRES:
  // kernels and pool outlive this.
  SegmentIndex(const VectorKernels* kernels, ThreadPool& pool)
      : pool_(pool),
        clusters_(static_cast<size_t>(pool.num_workers()),
                  KeyClusters(kernels)) {}

  // The op: a worker an item of a request, segment and KV head.
  void ClusterKeys(const LayerStep& step, const ClusterKeysArgs& args,
                   const LayerCache& cache);

 private:
  ThreadPool& pool_;
  std::vector<KeyClusters> clusters_;  // a worker
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_CLUSTER_KEYS_H_
