// The token in whose share of the weights a random number falls, the same one
// that backend/cpu/sample/kept_tokens.h draws.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_DRAW_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_DRAW_CUH_

#include "backend/cuda/device/sample/sample_cluster.cuh"
#include "backend/cuda/device/sample/sample_keep.cuh"
#include "backend/cuda/device/sample/sample_score.cuh"

namespace winnow::device {

// Some tokens beside one another, as far as their weight depends on how many
// ties stand before them.
struct TokenRun {
  uint64_t weight_above;  // of the tokens above the threshold
  uint64_t num_ties;      // tokens at it
};

// Goes past runs in the order of ids.
struct DrawCursor {
  uint64_t rest;       // from here to where the number falls
  uint64_t ties_left;  // that are still kept
  uint64_t tie_weight;

  __device__ uint64_t WeightOf(const TokenRun& run) const {
    return run.weight_above + min(run.num_ties, ties_left) * tie_weight;
  }
  // True where the number falls before the end of `run`; else goes past it.
  __device__ bool StopsAt(const TokenRun& run) {
    const uint64_t weight = WeightOf(run);
    if (rest < weight) return true;
    rest -= weight;
    ties_left -= min(run.num_ties, ties_left);
    return false;
  }
};

// The tokens [begin, end) of a slice that this thread's warp looks after:
// whole runs of 32, so that runs by warps and by blocks are in order.
struct WarpTokens {
  int begin, end;

  __device__ explicit WarpTokens(const SampleSlice& slice) {
    constexpr int kStep = 32 * kSampleWarps;
    const int each = (slice.size + kStep - 1) / kStep * 32;
    begin = min(static_cast<int>(threadIdx.x) / 32 * each, slice.size);
    end = min(begin + each, slice.size);
  }
};

__device__ inline TokenRun RunOfWarp(const SampleSlice& slice,
                                     const WarpTokens& tokens, float threshold,
                                     const WeightScale& scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TokenRun run = {0, 0};
  for (int i = tokens.begin + lane; i < tokens.end; i += 32) {
    const float score = slice.scores[i];
    if (score > threshold) run.weight_above += TokenWeight(score, scale);
    run.num_ties += score == threshold ? 1 : 0;
  }
  return {ReduceWarp(run.weight_above, SumOf()),
          ReduceWarp(run.num_ties, SumOf())};
}

// The token among the warp's in whose share cursor.rest falls, -1 where it
// falls behind them. All lanes agree.
__device__ inline int WalkWarpTokens(const SampleSlice& slice,
                                     const WarpTokens& tokens, float threshold,
                                     const WeightScale& scale,
                                     DrawCursor cursor) {
  const unsigned lane = threadIdx.x % 32;
  for (int first = tokens.begin; first < tokens.end; first += 32) {
    const int i = first + static_cast<int>(lane);
    const float score = i < tokens.end ? slice.scores[i] : ExcludedScore();
    const unsigned ties = __ballot_sync(kAllLanes, score == threshold);
    const unsigned ties_before = ties & ((1u << lane) - 1);
    uint64_t weight = 0;
    if (score > threshold) {
      weight = TokenWeight(score, scale);
    } else if (score == threshold &&
               static_cast<uint64_t>(__popc(ties_before)) < cursor.ties_left) {
      weight = cursor.tie_weight;
    }
    const uint64_t up_to = ScanWarp(weight);
    const unsigned beyond = __ballot_sync(kAllLanes, up_to > cursor.rest);
    if (beyond != 0) return slice.first + first + __ffs(beyond) - 1;
    cursor.rest -= __shfl_sync(kAllLanes, up_to, 31);
    cursor.ties_left -=
        min(static_cast<uint64_t>(__popc(ties)), cursor.ties_left);
  }
  return -1;
}

// The drawn token, in the lanes of the one warp that has it; -1 in all others.
__device__ inline int DrawToken(SampleCluster& cluster,
                                const SampleSlice& slice,
                                const KeptTokens& kept,
                                const WeightScale& scale,
                                uint64_t random_bits) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const WarpTokens tokens(slice);
  const TokenRun own = RunOfWarp(slice, tokens, kept.threshold, scale);
  auto& of_warps = cluster.shared().of_warps;
  if (threadIdx.x % 32 == 0) {
    of_warps[0][warp] = own.weight_above;
    of_warps[1][warp] = own.num_ties;
  }
  __syncthreads();
  TokenRun of_block = {0, 0};
  for (int i = 0; i < kSampleWarps; ++i) {
    of_block.weight_above += of_warps[0][i];
    of_block.num_ties += of_warps[1][i];
  }
  const auto* told = cluster.Tell(of_block.weight_above, of_block.num_ties);
  DrawCursor cursor = {__umul64hi(random_bits, kept.weight), kept.num_ties,
                       TokenWeight(kept.threshold, scale)};
  for (int block = 0; block < cluster.rank(); ++block) {
    if (cursor.StopsAt({told[0][block], told[1][block]})) return -1;
  }
  for (int i = 0; i < warp; ++i) {
    if (cursor.StopsAt({of_warps[0][i], of_warps[1][i]})) return -1;
  }
  if (cursor.rest >= cursor.WeightOf(own)) return -1;
  return WalkWarpTokens(slice, tokens, kept.threshold, scale, cursor);
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_DRAW_CUH_
