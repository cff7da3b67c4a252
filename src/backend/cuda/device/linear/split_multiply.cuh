// Those warps of a block of a split product that multiply.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_MULTIPLY_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_MULTIPLY_CUH_

#include "backend/cuda/device/linear/split_memory.cuh"
#include "backend/cuda/device/linear/split_task.cuh"
#include "backend/cuda/device/runtime/cluster.cuh"
#include "backend/cuda/device/runtime/wgmma.cuh"

namespace winnow::device {

// One of two warpgroups: every other tile of a pass, of this block's inputs,
// whose sums it sends to the blocks that add up their rows.
template <bool kGated>
class SplitMultiply {
  using Tiles = SplitTiles<kGated>;
  static constexpr int kMostTiles = kSplitTiles / 2;  // of a warpgroup
  static constexpr int kSums = kSplitOutputs * kSplitRows / 128;

 public:
  // group: 0 or 1.
  __device__ SplitMultiply(SplitMemory& memory, int rank, int group)
      : memory_(memory),
        rank_(rank),
        group_(group),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run(TileRun run, const SplitChunks& chunks) {
    uint32_t parity = 0;
    for (; run.left > 0; parity ^= 1) {
      const int of_run = run.template PassTiles<Tiles::kAPass>();
      const int num_tiles = of_run * Tiles::kEach;
      float sums[kMostTiles][kSums];
      for (int chunk = chunks.first; chunk < chunks.end; ++chunk) {
        memory_.full[place_.index].Wait(place_.parity);
        Multiply(memory_.stages[place_.index], num_tiles, chunk > chunks.first,
                 sums);
        if (lane_ == 0) memory_.empty[place_.index].Arrive();
        place_.Next();
      }
      // Nobody has sent anything before the first pass.
      WaitForBlocks(memory_.taken, parity ^ 1);
#pragma unroll
      for (int j = 0; j < kMostTiles; ++j) {
        const int tile = group_ + 2 * j;
        if (tile < num_tiles) Send(tile, sums[j]);
      }
      TellBlocks(rank_, memory_.received);
      run.Take(of_run);
    }
  }

 private:
  // Of a tile that is not there another is multiplied in vain: products stand
  // in no branch.
  __device__ void Multiply(const SplitStage& stage, int num_tiles,
                           bool accumulate, float (&sums)[kMostTiles][kSums]) {
    constexpr int kStepBytes = 32;  // of 16 inputs
    const SharedOperand<128> x(stage.x, 0);
    FenceProducts();
#pragma unroll
    for (int j = 0; j < kMostTiles; ++j) {
      const int tile = min(group_ + 2 * j, num_tiles - 1);
      const SharedOperand<128> weights(stage.weights[tile], 0);
#pragma unroll
      for (int at = 0; at < kSplitChunk * 2; at += kStepBytes) {
        MultiplyShared(sums[j], weights.Further(at), x.Further(at),
                       at > 0 || accumulate ? 1 : 0);
      }
    }
    CommitProducts();
    WaitForProducts<0>();
#pragma unroll
    for (int j = 0; j < kMostTiles; ++j) Landed(sums[j]);
  }

  // Lanes t and t + 1 of a group of four have rows 8 i + 2 t + (0, 1, 2, 3) of
  // outputs g and g + 8 between them: each takes one output's.
  __device__ void Send(int tile, const float (&sums)[kSums]) {
    const int t = lane_ % 4;
    const bool is_odd = t % 2 == 1;
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int output = 16 * warp + lane_ / 4 + (is_odd ? 8 : 0);
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      const float* four = sums + 4 * i;
      const float first =
          __shfl_xor_sync(0xffffffffu, is_odd ? four[0] : four[2], 1);
      const float second =
          __shfl_xor_sync(0xffffffffu, is_odd ? four[1] : four[3], 1);
      const float4 value = is_odd
                               ? make_float4(first, second, four[2], four[3])
                               : make_float4(four[0], four[1], first, second);
      const int piece = i % 2 * 2 + t / 2;
      const int place = SplitSums::Place(output, piece);
      const float4* to = &memory_.sums.pieces[rank_][tile][output][place];
      StoreInCluster(AddressIn(i / 2, to), value);
    }
  }

  SplitMemory& memory_;
  const int rank_, group_, lane_;
  RingPlace<kSplitStages> place_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_MULTIPLY_CUH_
