// The second half of Select on CUDA: from scores to lists.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_CHOICE_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_CHOICE_H_

#include "backend/cuda/select/select_scores.h"

namespace winnow {

// Keys of a list that shared memory holds; more pass through the wave's
// memory.
inline constexpr int kMaxSharedKeys = 24 << 10;

// Chooses the lists of the wave's rows, one block a (row, list). Bytes: the
// scores, once a list.
void EnqueueChoice(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_CHOICE_H_
