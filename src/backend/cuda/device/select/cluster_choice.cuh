// ClusterChoice: which clusters one list reads, and which it estimates.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_CLUSTER_CHOICE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_CLUSTER_CHOICE_CUH_

#include "backend/cuda/device/select/mask_list.cuh"

namespace winnow::device {

// By one block, whose threads all call each method. A list is made of the
// tokens that are always read, and those of the clusters that are chosen.
class ClusterChoice {
 public:
  __device__ ClusterChoice(const Selector& selector,
                           const ClusterBudget& budget, const MaskPlace& list,
                           uint32_t* keys,   // u32 [clusters]
                           uint32_t* masks,  // u32 [pages]
                           CutScratch& scratch)
      : selector_(selector),
        budget_(budget),
        list_(list),
        keys_(keys),
        masks_(masks),
        scratch_(scratch),
        lane_(static_cast<int>(threadIdx.x) % 32),
        num_pages_((list.context + kTokensAPage - 1) / kTokensAPage) {}

  __device__ MaskCounts Choose(const float* scores) {  // f32 [clusters]
    MaskForced();
    int num_estimates = 0;
    if (budget_.NeedsScores()) {
      WriteKeys(scores);
      const Cut read = FindRead();
      num_estimates = budget_.num_estimated > 0 && !selector_.cuts_tokens
                          ? Estimate(read, FindMore())
                          : 0;
      MarkTokens(read);
    }
    __syncthreads();
    MaskCounts counts = WritePicks(masks_, list_, scratch_.of_warps);
    counts.num_estimates = num_estimates;
    return counts;
  }

  // The tokens that are read of clusters alone, in the masks.
  // REQUIRES: scores decide by the budget of another choice for the row.
  __device__ void MarkChosen(const float* scores) {
    const int num_pages = num_pages_;
    for (int page = threadIdx.x; page < num_pages; page += kChooseThreads) {
      masks_[page] =
          budget_.all ? TokensOfPage(page, 0, budget_.clustered_tokens) : 0;
    }
    __syncthreads();
    if (budget_.all) return;
    WriteKeys(scores);
    MarkTokens(FindRead());
  }

 private:
  // No key is 0.
  __device__ static Cut NoCut() { return {0, 0, false}; }

  // Sinks, and what no cluster may have.
  __device__ void MaskForced() const {
    const int num_sinks = min(selector_.sink_tokens, list_.context);
    const int rest = budget_.all ? 0 : budget_.clustered_tokens;
    for (int page = threadIdx.x; page < num_pages_; page += kChooseThreads) {
      masks_[page] = TokensOfPage(page, 0, num_sinks) |
                     TokensOfPage(page, rest, list_.context);
    }
  }

  __device__ int NumTokensOf(int cluster) const {
    return selector_.summaries.NumTokensOf(list_.request, list_.kv_head,
                                           cluster);
  }

  // One without tokens has no score.
  __device__ void WriteKeys(const float* scores) const {
    for (int i = threadIdx.x; i < budget_.num_clusters; i += kChooseThreads) {
      keys_[i] = KeyOf(NumTokensOf(i) == 0 ? -INFINITY : scores[i]);
    }
    __syncthreads();
  }

  __device__ Cut FindRead() const {
    if (budget_.num_read == 0) return NoCut();
    if (!selector_.cuts_tokens) {
      return FindCut(keys_, budget_.num_clusters, budget_.num_read, scratch_);
    }
    return FindWeightedCut(keys_, budget_.num_clusters, budget_.num_read,
                           scratch_, [this](int i) { return NumTokensOf(i); });
  }
  // Of what is read and what is estimated.
  __device__ Cut FindMore() const {
    __syncthreads();  // Or the scratch would be overwritten while it is read.
    return FindCut(keys_, budget_.num_clusters,
                   budget_.num_read + budget_.num_estimated, scratch_);
  }

  // A cluster weighs its tokens where these are cut, else one.
  __device__ int WeightOf(int cluster) const {
    if (cluster >= budget_.num_clusters) return 0;
    return selector_.cuts_tokens ? NumTokensOf(cluster) : 1;
  }
  __device__ uint32_t KeyAt(int cluster) const {
    return cluster < budget_.num_clusters ? keys_[cluster] : ~0u;
  }

  // What weighs and equals the cut in the warps before this one.
  __device__ int EqualBefore(const Cut& cut, const WarpRange& range) const {
    return device::EqualBefore(cut, keys_, range, scratch_.of_warps,
                               [this](int i) { return WeightOf(i); });
  }

  // f(first of 32 clusters, whether this lane's is estimated).
  template <typename F>
  __device__ void ForEachEstimate(const WarpRange& range, CutTaker read,
                                  CutTaker more, F&& f) const {
    for (int first = range.first; first < range.end; first += 32) {
      const int cluster = first + lane_;
      const int weight = cluster < range.end ? 1 : 0;
      const uint32_t key = KeyAt(cluster);
      const bool is_read = read.Take(key, weight) > 0;
      const bool is_in = more.Take(key, weight) > 0;
      f(first, is_in && !is_read && NumTokensOf(cluster) > 0);
    }
  }

  // Writes those that `more` takes and `read` does not; returns how many.
  __device__ int Estimate(const Cut& read, const Cut& more) const {
    const WarpRange range(budget_.num_clusters);
    const CutTaker of_read = {read, EqualBefore(read, range)};
    const CutTaker of_more = {more, EqualBefore(more, range)};
    int count = 0;
    ForEachEstimate(range, of_read, of_more, [&](int, bool is_estimated) {
      count += __popc(__ballot_sync(kWarpMask, is_estimated));
    });
    int total = 0;
    int at = SumOfWarpsBefore(count, scratch_.of_warps, total);
    if (total > list_.estimates_capacity) __trap();
    ForEachEstimate(range, of_read, of_more, [&](int first, bool is_estimated) {
      const unsigned estimated = __ballot_sync(kWarpMask, is_estimated);
      if (is_estimated) {
        list_.estimates[at + __popc(estimated & ((1u << lane_) - 1))] =
            first + lane_;
      }
      at += __popc(estimated);
    });
    return total;
  }

  // Adds the tokens of the clusters that a cut takes to the masks; of the last
  // one the first tokens, where these are cut. A cluster at a time, lanes over
  // its tokens.
  __device__ void MarkTokens(const Cut& read) const {
    const WarpRange range(budget_.num_clusters);
    CutTaker taker = {read, EqualBefore(read, range)};
    for (int first = range.first; first < range.end; first += 32) {
      const int cluster = first + lane_;
      const int mine = cluster < range.end ? WeightOf(cluster) : 0;
      const int taken = taker.Take(KeyAt(cluster), mine);
      unsigned left = __ballot_sync(kWarpMask, taken > 0);
      for (; left != 0; left &= left - 1) {
        const int lane = __ffs(left) - 1;
        const ClusterTokens tokens = selector_.summaries.TokensOf(
            list_.request, list_.kv_head, first + lane);
        const int most = __shfl_sync(kWarpMask, taken, lane);
        const int count = selector_.cuts_tokens ? most : tokens.count;
        for (int i = lane_; i < count; i += 32) {
          const int token = tokens.token_offset + tokens.members[i];
          atomicOr(&masks_[token / kTokensAPage], 1u << token % kTokensAPage);
        }
      }
    }
  }

  const Selector& selector_;
  const ClusterBudget& budget_;
  const MaskPlace& list_;
  uint32_t* const keys_;
  uint32_t* const masks_;
  CutScratch& scratch_;
  const int lane_;
  const int num_pages_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_CLUSTER_CHOICE_CUH_
