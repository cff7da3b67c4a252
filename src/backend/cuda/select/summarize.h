// Summarize on CUDA: summaries of the pages that a step completes.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SUMMARIZE_H_
#define WINNOW_BACKEND_CUDA_SELECT_SUMMARIZE_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Summarize. Bytes: the keys of the tokens that are closed, once a
// selector and level; a flop or two a number, and what gates and fixed choices
// take (gate_keys.h, fix_choices.h).
void EnqueueSummarize(CudaQueue& queue, const LayerStep& step,
                      const SummarizeArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SUMMARIZE_H_
