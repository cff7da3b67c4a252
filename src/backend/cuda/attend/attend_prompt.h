// Attend of prefill rows on Hopper's tensor cores.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_ATTEND_PROMPT_H_
#define WINNOW_BACKEND_CUDA_ATTEND_ATTEND_PROMPT_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Whether EnqueueAttendPrompt can: bfloat16 q, KV and out; k_dim = v_dim of 64,
// 96 or 128; at most 64 q heads a KV head; a scale above zero; rows, heads and
// pages that begin at multiples of 16 bytes.
bool AttendPromptTakes(const AttendArgs& args, const LayerCache& cache);

// The prefill rows of a step, others left alone: one running state over
// ascending 128-key tiles (docs/design.md section 5), or, where the tiles of
// rows are too few for the device and args is not batch_invariant, up to 16
// parts of the keys with a state each, merged in their order. Of picks, the
// rows that have lists: the tiles in which any row of a tile of rows has picks
// are read, and each row is masked by its own. REQUIRES:
// AttendPromptTakes(args, cache).
void EnqueueAttendPrompt(CudaQueue& queue, const LayerStep& step,
                         const AttendArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_ATTEND_PROMPT_H_
