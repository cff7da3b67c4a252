// Combine on CUDA: attention over disjoint keys, merged.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_COMBINE_H_
#define WINNOW_BACKEND_CUDA_ATTEND_COMBINE_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Combine. Bytes: each part once, and the result; flops: two a number
// and part.
void EnqueueCombine(CudaQueue& queue, const LayerStep& step,
                    const CombineArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_COMBINE_H_
