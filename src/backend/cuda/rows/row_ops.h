// The ops on CUDA that take rows as they come, and touch no pages.
#ifndef WINNOW_BACKEND_CUDA_ROWS_ROW_OPS_H_
#define WINNOW_BACKEND_CUDA_ROWS_ROW_OPS_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Each reads and writes its arguments once; a few flops a number.
void EnqueueEmbed(CudaQueue& queue, const EmbedArgs& args);
void EnqueueRmsNorm(CudaQueue& queue, const RmsNormArgs& args);
void EnqueueRotaryAngles(CudaQueue& queue, const LayerStep& step,
                         const RotaryAnglesArgs& args);
void EnqueueGatedAct(CudaQueue& queue, const GatedActArgs& args);
void EnqueueGatherRows(CudaQueue& queue, const GatherRowsArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ROWS_ROW_OPS_H_
