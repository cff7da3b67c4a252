// Attend on CUDA: attention over pages, by units and by tiles.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_ATTEND_H_
#define WINNOW_BACKEND_CUDA_ATTEND_ATTEND_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Attend. Bytes: each page that a row's KV head reads, once a group of
// q heads (decode rows) or once a tile of rows (prefill rows); flops: 4 x
// keys x head_dim a row and q head.
void EnqueueAttend(CudaQueue& queue, const LayerStep& step,
                   const AttendArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_ATTEND_H_
