// Sample on CUDA.
#ifndef WINNOW_BACKEND_CUDA_SAMPLE_SAMPLE_H_
#define WINNOW_BACKEND_CUDA_SAMPLE_SAMPLE_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Sample. The tokens are the CPU's bit for bit, because weights are
// the same integers and their sums are exact; only log probabilities, and the
// place of min_p's threshold, pass through another library's logarithm. What
// rows and lists hold stands on the device and is not checked; ids outside the
// vocabulary are passed over. Bytes: the logits, once.
void EnqueueSample(CudaQueue& queue, const SampleArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SAMPLE_SAMPLE_H_
