// ClusterKeys on CUDA: clusters of the segments that a step completes.
#ifndef WINNOW_BACKEND_CUDA_SELECT_CLUSTER_KEYS_H_
#define WINNOW_BACKEND_CUDA_SELECT_CLUSTER_KEYS_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::ClusterKeys, a launch a selector that has clusters; most steps of
// decode complete no segment. Of a segment and KV head, bytes: its keys twice a
// move of the centroids, from L2 but for the first time, and its values once
// where they are kept; flops: 2 k_dim a key, centroid and assignment. REQUIRES:
// the workspace holds the centroids of one segment in float32.
void EnqueueClusterKeys(CudaQueue& queue, const LayerStep& step,
                        const ClusterKeysArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_CLUSTER_KEYS_H_
