// One warp of a block of a split product: brings weights and x.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_LOAD_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_LOAD_CUH_

#include "backend/cuda/device/linear/split_memory.cuh"
#include "backend/cuda/device/linear/split_task.cuh"
#include "backend/cuda/device/runtime/cache_policy.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/tma.cuh"

namespace winnow::device {

// One thread of a block: asks for what the others multiply, as soon as there
// is room.
template <typename Out, bool kGated>
class SplitLoad {
  using Tiles = SplitTiles<kGated>;
  using Walk = SplitWalk<Tiles::kAPass>;

 public:
  __device__ SplitLoad(const SplitTask<Out>& task, SplitMemory& memory)
      : task_(task), memory_(memory) {}

  // Weights need not wait for what is ahead of the kernel; x does.
  __device__ void Run(const TileRun& run, const SplitChunks& chunks) {
    Walk walk(run, chunks);
    Walk behind = walk;
    for (int i = 0; i < kSplitStages && walk.IsThere(); ++i, walk.Next()) {
      LoadWeights(walk, i);
    }
    WaitForPrior();
    for (int i = 0; i < kSplitStages && behind.IsThere(); ++i, behind.Next()) {
      LoadRows(behind, i);
    }
    RingPlace<kSplitStages> place;
    for (; walk.IsThere(); walk.Next(), place.Next()) {
      memory_.empty[place.index].Wait(place.parity);
      LoadWeights(walk, place.index);
      LoadRows(walk, place.index);
    }
  }

 private:
  // What lies behind the last input or output is filled with zeros.
  __device__ void LoadWeights(const Walk& walk, int stage) {
    const int num_tiles = walk.pass_tiles * Tiles::kEach;
    memory_.full[stage].ArriveExpecting(num_tiles * kSplitTileBytes +
                                        kSplitRowsBytes);
    for (int j = 0; j < num_tiles; ++j) {
      CopyBox(Tiles::IsUp(j) ? task_.up : task_.weight,
              {walk.chunk * kSplitChunk, 0, Tiles::Output(walk.run, j)},
              memory_.stages[stage].weights[j], memory_.full[stage], policy_);
    }
  }
  __device__ void LoadRows(const Walk& walk, int stage) {
    CopyBox(task_.x, {walk.chunk * kSplitChunk, 0, 0}, memory_.stages[stage].x,
            memory_.full[stage]);
  }

  const SplitTask<Out>& task_;
  SplitMemory& memory_;
  const CachePolicy policy_ = EvictFirst();
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_SPLIT_LOAD_CUH_
