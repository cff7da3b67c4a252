// The keys of learned gates on CUDA, a part of Summarize.
#ifndef WINNOW_BACKEND_CUDA_SELECT_GATE_KEYS_H_
#define WINNOW_BACKEND_CUDA_SELECT_GATE_KEYS_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Closes the rows of each selector that has gates: a launch each. Bytes: the
// keys of the tokens that rows cover, and a KV head's weights of 12 k_dim^2 for
// every kGateRows rows; flops: 6 k_dim^2 a row.
void EnqueueGateKeys(CudaQueue& queue, const LayerStep& step,
                     const SummarizeArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_GATE_KEYS_H_
