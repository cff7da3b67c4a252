// FixedList: a list of a row whose request has a choice that was made once.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_LIST_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_LIST_CUH_

#include "backend/cuda/device/select/mask_list.cuh"
#include "backend/cuda/device/select/select_partitions.cuh"

namespace winnow::device {

// Reads what is fixed, what is forced, and the best of the other partitions.
// By one block, whose threads all call each method.
class FixedList {
 public:
  __device__ FixedList(const Selector& selector, const RowBudget& budget,
                       const MaskPlace& place,
                       uint32_t* keys,   // u32 [free partitions]
                       uint32_t* masks,  // u32 [pages]
                       CutScratch& scratch)
      : selector_(selector),
        budget_(budget),
        place_(place),
        keys_(keys),
        masks_(masks),
        scratch_(scratch) {}

  __device__ MaskCounts Choose(const float* scores) {  // f32 [rows]
    MaskForced();
    if (budget_.NeedsScores()) {
      WriteOpenKeys(scores);
      const int num_free = budget_.end_free - budget_.first_free;
      const Cut cut = FindCut(keys_, num_free, budget_.count, scratch_);
      MarkPartitions(
          {keys_, num_free, budget_.first_free, selector_.block_tokens}, cut,
          masks_, scratch_.of_warps);
    }
    __syncthreads();
    return WritePicks(masks_, place_, scratch_.of_warps);
  }

 private:
  __device__ void MaskForced() const {
    const int first = budget_.first_free * selector_.block_tokens;
    const int end = budget_.end_free * selector_.block_tokens;
    const bool reads_all = budget_.count == budget_.num_open();
    const FixedTokens fixed =
        selector_.fixed.Tokens(place_.request, place_.kv_head, place_.list);
    const int num_pages = (place_.context + kTokensAPage - 1) / kTokensAPage;
    for (int page = threadIdx.x; page < num_pages; page += kChooseThreads) {
      const uint32_t free = TokensOfPage(page, first, end);
      uint32_t mask = TokensOfPage(page, 0, first) |
                      TokensOfPage(page, end, place_.context);
      if (free != 0) mask |= reads_all ? free : free & fixed[page];
      masks_[page] = mask;
    }
    __syncthreads();
  }

  // Of what is fixed, one that no score has: it is in the masks.
  __device__ void WriteOpenKeys(const float* scores) const {
    const int num_rows = selector_.summaries.levels[0].NumVisible(
        budget_.end_free * selector_.block_tokens);
    WriteKeys(selector_, budget_, scores, num_rows, keys_);
    const int num_free = budget_.end_free - budget_.first_free;
    for (int i = threadIdx.x; i < num_free; i += kChooseThreads) {
      const int token = (budget_.first_free + i) * selector_.block_tokens;
      if (selector_.fixed.Has(place_.request, place_.kv_head, place_.list,
                              token)) {
        keys_[i] = ~0u;
      }
    }
    __syncthreads();
  }

  const Selector& selector_;
  const RowBudget& budget_;
  const MaskPlace& place_;
  uint32_t* const keys_;
  uint32_t* const masks_;
  CutScratch& scratch_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_LIST_CUH_
