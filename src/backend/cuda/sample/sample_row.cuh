// One row of Sample by a cluster of blocks: backend/cpu/sample/sample_row.h.
#ifndef WINNOW_BACKEND_CUDA_SAMPLE_SAMPLE_ROW_CUH_
#define WINNOW_BACKEND_CUDA_SAMPLE_SAMPLE_ROW_CUH_

#include "backend/contract/sampling.h"
#include "backend/cuda/device/sample/philox.cuh"
#include "backend/cuda/device/sample/sample_cluster.cuh"
#include "backend/cuda/device/sample/sample_draw.cuh"
#include "backend/cuda/device/sample/sample_keep.cuh"
#include "backend/cuda/device/sample/sample_score.cuh"
#include "backend/cuda/device/sample/sample_top.cuh"

namespace winnow::device {

// A row's arguments and outputs.
struct SampledRow {
  const float* logits;  // [vocab]
  int vocab;
  const SamplingRow* rules;
  const SeenToken* seen;  // [num_seen]
  int num_seen;
  const TokenBias* bias;  // [num_bias]
  int num_bias;
  const uint32_t* mask;  // [ceil(vocab / 32)], or null
  int32_t* token_id;
  float* logprob;
  TopOutputs top;
};

// Copies the block's logits, ordered, to its shared memory. Returns the first
// best token of all blocks (TokenKey).
__device__ inline uint64_t LoadScores(SampleCluster& cluster,
                                      const SampleSlice& slice,
                                      const float* __restrict__ logits) {
  constexpr int kAtOnce = 8;  // loads in flight
  uint64_t best = 0;
  const float* from = logits + slice.first;
  for (int base = static_cast<int>(threadIdx.x); base < slice.size;
       base += kAtOnce * kSampleThreads) {
    float loaded[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int place = base + i * kSampleThreads;
      loaded[i] = place < slice.size ? __ldg(from + place) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int place = base + i * kSampleThreads;
      if (place >= slice.size) break;
      const float score = Ordered(loaded[i]);
      slice.scores[place] = score;
      best = MaxOf()(best, TokenKey(score, slice.first + place));
    }
  }
  return cluster.Reduce(best, MaxOf());
}

__device__ inline float Penalised(float score, const SeenToken& token,
                                  const SamplingRow& rules) {
  const float repetition = rules.repetition_penalty;
  score = Ordered(score > 0 ? __fdiv_rn(score, repetition)
                            : __fmul_rn(score, repetition));
  if (token.num_generated <= 0) return score;
  const float times = __int2float_rn(token.num_generated);
  score = __fsub_rn(score, __fmul_rn(rules.frequency_penalty, times));
  return Ordered(__fsub_rn(score, rules.presence_penalty));
}

// Penalties, bias and mask. Returns the first best token of all blocks.
__device__ inline uint64_t ChangeScores(SampleCluster& cluster,
                                        const SampleSlice& slice,
                                        const SampledRow& row) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < row.num_seen; i += kSampleThreads) {
    const int place = row.seen[i].token_id - slice.first;
    if (place < 0 || place >= slice.size) continue;
    slice.scores[place] =
        Penalised(slice.scores[place], row.seen[i], *row.rules);
  }
  __syncthreads();  // a token may be in both lists
  for (int i = thread; i < row.num_bias; i += kSampleThreads) {
    const int place = row.bias[i].token_id - slice.first;
    if (place < 0 || place >= slice.size) continue;
    slice.scores[place] =
        Ordered(__fadd_rn(slice.scores[place], row.bias[i].bias));
  }
  __syncthreads();
  uint64_t best = 0;
  for (int i = thread; i < slice.size; i += kSampleThreads) {
    const int token = slice.first + i;
    if (row.mask != nullptr && (row.mask[token / 32] >> token % 32 & 1) == 0) {
      slice.scores[i] = ExcludedScore();
    }
    best = MaxOf()(best, TokenKey(slice.scores[i], token));
  }
  return cluster.Reduce(best, MaxOf());
}

// The row's token, in one thread or more of one block; -1 in all others.
// REQUIRES: `best` is the first of the best tokens, and not excluded.
__device__ inline int ChooseToken(SampleCluster& cluster,
                                  const SampleSlice& slice,
                                  const SampledRow& row, uint64_t best) {
  const SamplingRow& rules = *row.rules;
  if (!(rules.temperature > 0)) {
    return cluster.IsWriter() ? IdOfToken(best) : -1;
  }
  const WeightScale scale =
      MakeWeightScale(ScoreOfToken(best), rules.temperature);
  const KeepRules keep = {rules.temperature, rules.min_p, rules.top_p,
                          rules.top_k};
  const KeptTokens kept = KeepTokens(cluster, slice, keep, scale, row.vocab);
  return DrawToken(cluster, slice, kept, scale,
                   RandomBits(rules.seed, rules.draw));
}

__device__ inline void WriteNoToken(const SampledRow& row) {
  *row.token_id = -1;
  *row.logprob = ExcludedScore();
}

// Called by all threads of the row's cluster.
__device__ inline void SampleRow(SampleCluster& cluster,
                                 const SampleSlice& slice,
                                 const SampledRow& row) {
  uint64_t best = LoadScores(cluster, slice, row.logits);
  LogSoftmax softmax = {ScoreOfToken(best), 0};
  if (!(softmax.best >= kLowestScore)) {
    if (!cluster.IsWriter()) return;
    ClearTop(row.top, 0);
    return WriteNoToken(row);
  }
  softmax.sum_weight = SumWeights(cluster, slice, kLowestScore,
                                  MakeWeightScale(softmax.best, 1.0f));
  WriteTop(cluster, slice, softmax, row.rules->num_top_logprobs, row.top);
  if (row.num_seen > 0 || row.num_bias > 0 || row.mask != nullptr) {
    // WriteTop reads what other threads write here.
    __syncthreads();
    best = ChangeScores(cluster, slice, row);
    if (!(ScoreOfToken(best) >= kLowestScore)) {
      if (cluster.IsWriter()) WriteNoToken(row);
      return;
    }
  }
  const int token = ChooseToken(cluster, slice, row, best);
  const bool is_first = cluster.IsWriter() || threadIdx.x % 32 == 0;
  if (token < 0 || !is_first) return;
  *row.token_id = token;
  *row.logprob = Logprob(Ordered(row.logits[token]), softmax.best,
                         LogOfWeights(softmax.sum_weight));
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_SAMPLE_SAMPLE_ROW_CUH_
