// Sample on CUDA.
#ifndef WINNOW_BACKEND_CUDA_SAMPLE_H_
#define WINNOW_BACKEND_CUDA_SAMPLE_H_

#include "backend/backend.h"
#include "backend/cuda/cuda_queue.h"

namespace winnow {

// Backend::Sample. Bytes: the logits, a few times over, most from L2.
void EnqueueSample(CudaQueue& queue, const SampleArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SAMPLE_H_
