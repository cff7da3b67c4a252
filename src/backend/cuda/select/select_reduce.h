// The middle of Select on CUDA: heads mapped and reduced.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_REDUCE_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_REDUCE_H_

#include "backend/cuda/select/select_scores.h"

namespace winnow {

// Maps the scores of the wave's rows that have this selector, and reduces each
// list's planes to its first one. Bytes: the scores once, and a plane a list.
void EnqueueReduce(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave, size_t selector);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_REDUCE_H_
