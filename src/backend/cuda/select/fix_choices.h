// The second half of Summarize on CUDA: choices that are made once.
#ifndef WINNOW_BACKEND_CUDA_SELECT_FIX_CHOICES_H_
#define WINNOW_BACKEND_CUDA_SELECT_FIX_CHOICES_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Of each selector that fixes a choice: keeps the queries that are observed,
// and chooses for every request whose end is reached. A launch, or two where
// queries are kept. Bytes: of the keys before the end, for each list, what is
// observed twice a 32 queries (outliers: once); flops: 4 k_dim a query and key
// (outliers: 4 k_dim a key). REQUIRES: the requests' summaries are closed; the
// workspace holds 8 bytes a token of the longest context.
void EnqueueFixedChoices(CudaQueue& queue, const LayerStep& step,
                         const SummarizeArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_FIX_CHOICES_H_
