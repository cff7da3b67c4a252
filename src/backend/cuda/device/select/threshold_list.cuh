// A list of a row whose selector reads whatever scores above a threshold.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_THRESHOLD_LIST_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_THRESHOLD_LIST_CUH_

#include "backend/cuda/device/select/mask_list.cuh"
#include "backend/cuda/device/select/select_partitions.cuh"

namespace winnow::device {

// Reads what is forced, and of the other partitions those above the selector's
// threshold. By one block, whose threads all call it.
__device__ inline MaskCounts ChooseAbove(const Selector& selector,
                                         const RowBudget& budget,
                                         const MaskPlace& place,
                                         const float* scores,  // f32 [rows]
                                         const ListMemory& memory) {
  const int block = selector.block_tokens;
  const int num_pages = (place.context + kTokensAPage - 1) / kTokensAPage;
  for (int page = threadIdx.x; page < num_pages; page += kChooseThreads) {
    memory.masks[page] =
        TokensOfPage(page, 0, budget.first_free * block) |
        TokensOfPage(page, budget.end_free * block, place.context);
  }
  if (budget.NeedsScores()) {
    WriteKeys(selector, budget, scores,
              selector.summaries.levels[0].NumVisible(place.context),
              memory.keys);
    // Better scores have lesser keys, and the threshold itself is not above it.
    const Cut cut = {KeyOf(selector.threshold) - 1, 0, false};
    MarkPartitions({memory.keys, budget.end_free - budget.first_free,
                    budget.first_free, block},
                   cut, memory.masks, memory.scratch.of_warps);
  }
  __syncthreads();
  return WritePicks(memory.masks, place, memory.scratch.of_warps);
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_THRESHOLD_LIST_CUH_
