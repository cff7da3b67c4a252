// Fetch on CUDA: the lookup, the victims and the fetch.
#ifndef WINNOW_BACKEND_CUDA_FETCH_FETCH_H_
#define WINNOW_BACKEND_CUDA_FETCH_FETCH_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Fetch. Bytes: 8 a pick; of each pick's pieces that are not whole a
// page's, an entry's and a tag's words; 5 a slot four times; and what is
// fetched, read from the host and written. REQUIRES: the workspace holds 16
// bytes for each slot that a request's KV heads may have.
void EnqueueFetch(CudaQueue& queue, const LayerStep& step,
                  const FetchArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_FETCH_FETCH_H_
