// The next ranks on CUDA: what a larger budget would add.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_NEXT_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_NEXT_H_

#include "backend/cuda/select/select_scores.h"

namespace winnow {

// Writes args.next for the wave's rows, whose lists are made and whose scores
// still stand: a launch a selector, one block a (row, list). Rows whose pages
// are all whole are looked at no further. Bytes: those of a choice, and the
// row's lists. REQUIRES: next ranks are asked for.
void EnqueueNextRanks(CudaQueue& queue, const LayerStep& step,
                      const SelectArgs& args, const LayerCache& cache,
                      const SelectWave& wave);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_NEXT_H_
