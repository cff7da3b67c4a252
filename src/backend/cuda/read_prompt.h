// Read of prompt rows on Hopper's tensor cores.
#ifndef WINNOW_BACKEND_CUDA_READ_PROMPT_H_
#define WINNOW_BACKEND_CUDA_READ_PROMPT_H_

#include "backend/backend.h"
#include "backend/cuda/cuda_queue.h"

namespace winnow {

// Whether EnqueueReadPrompt can: bfloat16 q, KV and out; k_dim = v_dim of 64,
// 96 or 128; at most 64 q heads a KV head; all pages.
bool ReadPromptTakes(const ReadArgs& args, const LayerCache& cache);

// The prompt rows of a step, others left alone: one running state over
// ascending 128-key tiles (docs/design.md section 5).
// REQUIRES: ReadPromptTakes(args, cache).
void EnqueueReadPrompt(CudaQueue& queue, const LayerStep& step,
                       const ReadArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_READ_PROMPT_H_
