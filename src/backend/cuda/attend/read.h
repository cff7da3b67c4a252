// Read on CUDA: attention over pages, by units and by tiles.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_READ_H_
#define WINNOW_BACKEND_CUDA_ATTEND_READ_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Read. Bytes: each page that a row's KV head reads, once a group of
// q heads (generated rows) or once a tile of rows (prompt rows); flops: 4 x
// keys x head_dim a row and q head.
void EnqueueRead(CudaQueue& queue, const LayerStep& step, const ReadArgs& args,
                 const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_READ_H_
