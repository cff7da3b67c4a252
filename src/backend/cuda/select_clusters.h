// The second half of Select on CUDA where partitions are clusters.
#ifndef WINNOW_BACKEND_CUDA_SELECT_CLUSTERS_H_
#define WINNOW_BACKEND_CUDA_SELECT_CLUSTERS_H_

#include "backend/cuda/select_scores.h"

namespace winnow {

// Chooses the lists of the wave's rows whose selector is this one, clusters and
// what is estimated, but for rows that read everything: those are
// EnqueueChoice's. One block a (row, list). Bytes: 4 a score, 12 a cluster, 2 a
// token that is read, and the lists. REQUIRES: the program has clusters.
void EnqueueClusterChoice(CudaQueue& queue, const LayerStep& step,
                          const SelectArgs& args, const LayerCache& cache,
                          const SelectWave& wave, size_t selector);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_CLUSTERS_H_
