// What blocks of a product whose inputs are split share, and how they walk.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_MEMORY_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_MEMORY_CUH_

#include "backend/cuda/device/attend/tile_run.cuh"
#include "backend/cuda/device/runtime/cluster.cuh"
#include "backend/cuda/device/runtime/mbarrier.cuh"

namespace winnow::device {

inline constexpr int kSplitBlocks = 4;    // of a cluster, a quarter of inputs
inline constexpr int kSplitRows = 64;     // of x, at most
inline constexpr int kSplitOutputs = 64;  // of a tile: one instruction's
inline constexpr int kSplitTiles = 4;     // of a pass, at most
inline constexpr int kSplitChunk = 64;    // inputs of a stage
inline constexpr int kSplitStages = 4;
// Two warpgroups that multiply, one that adds up, and a warp that fetches.
inline constexpr int kSplitMultiplyWarps = 8;
inline constexpr int kSplitAddWarps = 4;
inline constexpr int kSplitThreads =
    (kSplitMultiplyWarps + kSplitAddWarps + 1) * 32;
inline constexpr int kSplitTileBytes = kSplitOutputs * kSplitChunk * 2;
inline constexpr int kSplitRowsBytes = kSplitRows * kSplitChunk * 2;
inline constexpr int kSplitOwnRows = kSplitRows / kSplitBlocks;

// Rows of 128 bytes, swizzled as the copy engine does it.
struct SplitStage {
  uint8_t weights[kSplitTiles][kSplitTileBytes];
  uint8_t x[kSplitRowsBytes];
};

// The sums that all blocks have of this block's quarter of the rows: 16 of
// each output, as four pieces of four.
struct SplitSums {
  float4 pieces[kSplitBlocks][kSplitTiles][kSplitOutputs][4];

  // Where a piece of an output stands: neither eight lanes that store theirs
  // (two outputs, and those eight further, two pieces each) nor eight that
  // load (eight outputs, one piece each) meet in a bank.
  __device__ static int Place(int output, int piece) {
    return piece ^ (output / 2 + output / 8 * 2) % 4;
  }
};

// `full` passes when a stage holds what was asked for, `empty` when all that
// multiply are done with it; `received` when `sums` has those of all blocks,
// `taken` when all blocks have added up what this one has sent.
struct SplitMemory {
  SplitStage stages[kSplitStages];
  SplitSums sums;
  Mbarrier full[kSplitStages], empty[kSplitStages];
  Mbarrier received, taken;

  // By one thread, before the others come here.
  __device__ void Init() {
    for (int i = 0; i < kSplitStages; ++i) {
      full[i].Init(1);
      empty[i].Init(kSplitMultiplyWarps);
    }
    received.Init(kSplitBlocks * kSplitMultiplyWarps);
    taken.Init(kSplitBlocks * kSplitAddWarps);
    FenceMbarrierInit();
  }
};

// Arrives, as a warp of block `rank`, at this barrier of every block of the
// cluster.
__device__ inline void TellBlocks(int rank, Mbarrier& barrier) {
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == rank) {
    barrier.Arrive();
  } else if (lane < kSplitBlocks) {
    ArriveInCluster(AddressIn(lane, &barrier));
  }
}

// A block's chunks of inputs, which it walks through once a pass. All blocks
// have as many: what lies behind the last input is zeros.
struct SplitChunks {
  int first, end;

  __device__ static SplitChunks OfBlock(int inputs, int rank) {
    constexpr int kInputs = kSplitChunk * kSplitBlocks;  // a chunk a block
    const int each = (inputs + kInputs - 1) / kInputs;
    return {each * rank, each * (rank + 1)};
  }
};

// A stage after the other: the chunks of a pass, then those of the next. Tiles
// of a run come kTilesAPass at most in a pass.
template <int kTilesAPass>
struct SplitWalk {
  TileRun run;  // from the pass on that is walked
  SplitChunks chunks;
  int chunk, pass_tiles;

  __device__ SplitWalk(const TileRun& of, const SplitChunks& of_block)
      : run(of),
        chunks(of_block),
        chunk(of_block.first),
        pass_tiles(of.template PassTiles<kTilesAPass>()) {}
  __device__ bool IsThere() const { return pass_tiles > 0; }
  __device__ void Next() {
    if (++chunk < chunks.end) return;
    chunk = chunks.first;
    run.Take(pass_tiles);
    pass_tiles = run.template PassTiles<kTilesAPass>();
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_MEMORY_CUH_
