// The second half of Select on CUDA where lists are made as masks of pages.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_MASKS_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_MASKS_H_

#include "backend/cuda/select/select_scores.h"

namespace winnow {

// Whether the program's lists are: its partitions are clusters, whose tokens
// lie anywhere, some of them are fixed, or as many are read as a threshold lets
// in.
bool ChoosesByMasks(const SelectProgram& program);

// Chooses the lists of the wave's rows whose selector is this one, and what is
// estimated, but for rows that read everything: those are EnqueueChoice's. One
// block a (row, list). Bytes: 4 a score, 12 a cluster and 2 a token of it that
// is read, 4 a page, and the lists. REQUIRES: ChoosesByMasks.
void EnqueueMaskChoice(CudaQueue& queue, const LayerStep& step,
                       const SelectArgs& args, const LayerCache& cache,
                       const SelectWave& wave, size_t selector);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_MASKS_H_
