// Attend of what is kept of clusters: a mean key and value, weighted by the
// size.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_ATTEND_ESTIMATES_H_
#define WINNOW_BACKEND_CUDA_ATTEND_ATTEND_ESTIMATES_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// The decode rows' estimates (AttendSource::Kind::kEstimates), a launch a
// selector that estimates. Bytes: a cluster's key and value once a list (its
// heads in parts of eight), 8 of its size, and 4 (v_dim + 2) a unit and q head
// of states, written and read; flops: 2 (k_dim + v_dim) a cluster and q head.
// REQUIRES: out and lse in float32; the workspace holds a row's states.
void EnqueueAttendEstimates(CudaQueue& queue, const LayerStep& step,
                            const AttendArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_ATTEND_ESTIMATES_H_
