// MergeStates on CUDA: attention over disjoint keys, merged.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_MERGE_STATES_H_
#define WINNOW_BACKEND_CUDA_ATTEND_MERGE_STATES_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::MergeStates. Bytes: each part once, and the result; flops: two a
// number and part.
void EnqueueMergeStates(CudaQueue& queue, const LayerStep& step,
                        const MergeStatesArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_MERGE_STATES_H_
