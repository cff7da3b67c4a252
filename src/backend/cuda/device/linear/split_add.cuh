// Those warps of a block of a split product that add up what all have.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_ADD_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_ADD_CUH_

#include "backend/cuda/device/linear/split_memory.cuh"
#include "backend/cuda/device/linear/split_task.cuh"
#include "backend/cuda/device/runtime/element.cuh"

namespace winnow::device {

// One warpgroup: adds up what all blocks have of 16 rows, while the next pass
// is multiplied. A thread has two times four rows of an output of a tile.
template <typename Out, bool kGated>
class SplitAdd {
  using Tiles = SplitTiles<kGated>;

 public:
  __device__ SplitAdd(const SplitTask<Out>& task, const SplitMemory& memory,
                      int rank)
      : task_(task),
        memory_(memory),
        rank_(rank),
        thread_(static_cast<int>(threadIdx.x) % 128) {}

  __device__ void Run(TileRun run, SplitMemory& memory) {
    for (uint32_t parity = 0; run.left > 0; parity ^= 1) {
      const int of_run = run.template PassTiles<Tiles::kAPass>();
      const int num_tiles = of_run * Tiles::kEach;
      LoadResidual(run, num_tiles);
      WaitForBlocks(memory.received, parity);
#pragma unroll
      for (int j = 0; j < kSplitTiles; j += Tiles::kEach) {
        if (j < num_tiles) StoreTile(j, Tiles::Output(run, j));
      }
      run.Take(of_run);
      // Behind the last pass nobody waits, and a block may have ended.
      if (run.left > 0) TellBlocks(rank_, memory.taken);
    }
  }

 private:
  static constexpr int kPieces = 2;

  __device__ int Output() const { return thread_ % kSplitOutputs; }
  __device__ int Piece(int p) const { return thread_ / kSplitOutputs * 2 + p; }
  __device__ int Row(int p, int r) const {
    return rank_ * kSplitOwnRows + Piece(p) * 4 + r;
  }

  // Asks for what sums are added to, long before they are there. `out` may be
  // the same: a thread reads what it alone overwrites.
  __device__ void LoadResidual(const TileRun& run, int num_tiles) {
    if (task_.residual == nullptr) return;
#pragma unroll
    for (int j = 0; j < kSplitTiles; ++j) {
      const int output = Tiles::Output(run, j) + Output();
      if (j >= num_tiles || output >= task_.outputs) continue;
#pragma unroll
      for (int i = 0; i < kPieces * 4; ++i) {
        const int row = Row(i / 4, i % 4);
        if (row >= task_.rows) break;
        residuals_[j][i] =
            __ldcg(task_.residual + row * task_.residual_stride + output);
      }
    }
  }

  // All blocks' sums of a piece, in the blocks' order.
  struct Four {
    float of[4];
  };
  __device__ Four SumOfBlocks(int tile, int p) const {
    const int place = SplitSums::Place(Output(), Piece(p));
    Four sum = {};
#pragma unroll
    for (int block = 0; block < kSplitBlocks; ++block) {
      const float4 more = memory_.sums.pieces[block][tile][Output()][place];
      sum.of[0] += more.x;
      sum.of[1] += more.y;
      sum.of[2] += more.z;
      sum.of[3] += more.w;
    }
    return sum;
  }

  __device__ void StoreTile(int tile, int first_output) const {
    const int output = first_output + Output();
    if (output >= task_.outputs) return;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const Four sums = SumOfBlocks(tile, p);
      Four ups = {};
      if constexpr (kGated) ups = SumOfBlocks(tile + 1, p);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = Row(p, r);
        if (row >= task_.rows) break;
        float value = Scaled(sums.of[r], task_.bias, output);
        if constexpr (kGated) {
          value = Gated(value, Scaled(ups.of[r], task_.up_bias, output));
        } else if (task_.residual != nullptr) {
          value += residuals_[tile][4 * p + r];
        }
        task_.out[row * task_.out_stride + output] = FromFloat<Out>(value);
      }
    }
  }

  __device__ float Scaled(float sum, const SplitElement* bias,
                          int output) const {
    if (bias != nullptr) sum += ToFloat(bias[output]);
    return sum * task_.scale;
  }

  // Gate and up are rounded as products are.
  __device__ float Gated(float gate, float up) const {
    gate = ToFloat(FromFloat<SplitElement>(gate));
    up = ToFloat(FromFloat<SplitElement>(up));
    return Activate(task_.activation, gate) * up;
  }

  const SplitTask<Out>& task_;
  const SplitMemory& memory_;
  const int rank_, thread_;
  float residuals_[kSplitTiles][kPieces * 4] = {};
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_ADD_CUH_
