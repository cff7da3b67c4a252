// The top log probabilities of a row.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_TOP_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_TOP_CUH_

#include "backend/cuda/device/sample/sample_cluster.cuh"
#include "backend/cuda/device/sample/sample_score.cuh"

namespace winnow::device {

// What stands for the model's own distribution.
struct LogSoftmax {
  float best;           // the highest logit
  uint64_t sum_weight;  // of all tokens, at temperature 1
};

// Where a row's top log probabilities go.
struct TopOutputs {
  int32_t* ids;     // [max_top], or null
  float* logprobs;  // [max_top]
  int max_top;
};

// The best of this thread's tokens that come after `bound`; 0: none.
__device__ inline uint64_t BestTokenBelow(const SampleSlice& slice,
                                          uint64_t bound) {
  uint64_t best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < slice.size;
       i += kSampleThreads) {
    const uint64_t token = TokenKey(slice.scores[i], slice.first + i);
    if (token < bound) best = MaxOf()(best, token);
  }
  return best;
}

// -1 and -infinity from output `first` on. Called by one thread.
__device__ inline void ClearTop(const TopOutputs& out, int first) {
  for (int i = first; i < out.max_top; ++i) {
    out.ids[i] = -1;
    out.logprobs[i] = ExcludedScore();
  }
}

// The num_top highest logits in descending order, ties to the lowest id: the
// best of every thread's best, as often; who had it looks for its next one.
// Returns after the first excluded one, in step with the other threads.
__device__ inline void WriteTop(SampleCluster& cluster,
                                const SampleSlice& slice,
                                const LogSoftmax& softmax, int num_top,
                                const TopOutputs& out) {
  const int wanted = min(num_top, out.max_top);
  uint64_t own = wanted > 0 ? BestTokenBelow(slice, ~uint64_t{0}) : 0;
  const bool writes = cluster.IsWriter();
  const double log_sum =
      wanted > 0 && writes ? LogOfWeights(softmax.sum_weight) : 0;
  int i = 0;
  for (; i < wanted; ++i) {
    const uint64_t best = cluster.Reduce(own, MaxOf());
    const float logit = ScoreOfToken(best);
    if (best == 0 || !(logit >= kLowestScore)) break;
    if (writes) {
      out.ids[i] = IdOfToken(best);
      out.logprobs[i] = Logprob(logit, softmax.best, log_sum);
    }
    if (own == best) own = BestTokenBelow(slice, best);
  }
  if (writes) ClearTop(out, i);
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_TOP_CUH_
