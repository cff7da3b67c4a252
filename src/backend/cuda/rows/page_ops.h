// The ops on CUDA that write pages.
#ifndef WINNOW_BACKEND_CUDA_ROWS_PAGE_OPS_H_
#define WINNOW_BACKEND_CUDA_ROWS_PAGE_OPS_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Append. Bytes: q twice, k and v read and written; 3 flops a number.
void EnqueueAppend(CudaQueue& queue, const LayerStep& step,
                   const TokenInputs& inputs, const LayerCache& cache);

// Backend::CopyPagePrefixes. Bytes: what is copied, twice.
void EnqueueCopyPagePrefixes(CudaQueue& queue,
                             const CopyPagePrefixesArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ROWS_PAGE_OPS_H_
