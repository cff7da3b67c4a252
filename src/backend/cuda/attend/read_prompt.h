// Read of prompt rows on Hopper's tensor cores.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_READ_PROMPT_H_
#define WINNOW_BACKEND_CUDA_ATTEND_READ_PROMPT_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Whether EnqueueReadPrompt can: bfloat16 q, KV and out; k_dim = v_dim of 64,
// 96 or 128; at most 64 q heads a KV head; a scale above zero; rows, heads and
// pages that begin at multiples of 16 bytes.
bool ReadPromptTakes(const ReadArgs& args, const LayerCache& cache);

// The prompt rows of a step, others left alone: one running state over
// ascending 128-key tiles (docs/design.md section 5), or, where the tiles of
// rows are too few for the device and args is not batch_invariant, up to 16
// parts of the keys with a state each, merged in their order. Of picks, the
// rows that have lists: the tiles in which any row of a tile of rows has picks
// are read, and each row is masked by its own. REQUIRES: ReadPromptTakes(args,
// cache).
void EnqueueReadPrompt(CudaQueue& queue, const LayerStep& step,
                       const ReadArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_READ_PROMPT_H_
