// Attend of any types and sizes, a row and q head at a time.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_ATTEND_ROWS_H_
#define WINNOW_BACKEND_CUDA_ATTEND_ATTEND_ROWS_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Which rows of a step are meant, those of the other kind left alone.
struct RowKinds {
  bool prompt = false;
  bool generated = false;
};

// What the scalar CPU op does, in its order, with float32 products: every
// float type of q, KV and out, v_dim up to 1024, prefill rows by tiles,
// generated ones by units. Heads share no load: bytes are q heads x keys x
// (k_dim + v_dim) elements a row, from L2 at best.
void EnqueueAttendRows(CudaQueue& queue, const LayerStep& step,
                       const AttendArgs& args, const LayerCache& cache,
                       RowKinds kinds);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_ATTEND_ROWS_H_
