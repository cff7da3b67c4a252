#include <cuda_bf16.h>

#include <algorithm>

#include "backend/cuda/cuda_types.h"
#include "backend/cuda/dependent_launch.h"
#include "backend/cuda/device/activation.cuh"
#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/split_memory.cuh"
#include "backend/cuda/device/tma.cuh"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/linear.h"
#include "backend/cuda/tensor_map.h"

namespace winnow {
namespace {

using device::kSplitBlocks;
using device::kSplitOutputs;
using device::kSplitRows;
using device::kSplitStages;
using device::kSplitThreads;
using device::kSplitTiles;
using device::RingPlace;
using device::SplitChunks;
using device::SplitMemory;
using device::TileRun;
using Element = __nv_bfloat16;

// The least rows: fewer are LinearFewRows'.
constexpr int kMinRows = 17;

// One product, out = residual + scale (x W^T + b); where it gates, out =
// activation(gate) * up, of two weights of one shape.
template <typename Out>
struct SplitTask {
  CUtensorMap weight, up, x;  // boxes of 64 rows and 64 inputs
  const Element *bias, *up_bias;
  const float* residual;
  Out* out;
  int64_t residual_stride, out_stride;
  int rows, inputs, outputs;
  float scale;
  device::Activation activation;
};

// Which tile of outputs the j-th of a pass is: where gates and ups meet, a run
// counts them as one, and a gate stands before its up.
template <bool kGated>
struct SplitTiles {
  static constexpr int kEach = kGated ? 2 : 1;  // of one of the run
  static constexpr int kAPass = kSplitTiles / kEach;

  __device__ static int Output(const TileRun& run, int j) {
    return (run.first + j / kEach) * kSplitOutputs;
  }
  __device__ static bool IsUp(int j) { return kGated && j % 2 == 1; }
};

// One thread of a block: asks for what the others multiply, as soon as there
// is room.
template <typename Out, bool kGated>
class SplitFetch {
  using Tiles = SplitTiles<kGated>;
  using Walk = device::SplitWalk<Tiles::kAPass>;

 public:
  __device__ SplitFetch(const SplitTask<Out>& task, SplitMemory& memory)
      : task_(task), memory_(memory) {}

  // Weights need not wait for what is ahead of the kernel; x does.
  __device__ void Run(const TileRun& run, const SplitChunks& chunks) {
    Walk walk(run, chunks);
    Walk behind = walk;
    for (int i = 0; i < kSplitStages && walk.IsThere(); ++i, walk.Next()) {
      FetchWeights(walk, i);
    }
    device::WaitForPrior();
    for (int i = 0; i < kSplitStages && behind.IsThere(); ++i, behind.Next()) {
      FetchRows(behind, i);
    }
    RingPlace<kSplitStages> place;
    for (; walk.IsThere(); walk.Next(), place.Next()) {
      memory_.empty[place.index].Wait(place.parity);
      FetchWeights(walk, place.index);
      FetchRows(walk, place.index);
    }
  }

 private:
  // What lies behind the last input or output is filled with zeros.
  __device__ void FetchWeights(const Walk& walk, int stage) {
    const int num_tiles = walk.pass_tiles * Tiles::kEach;
    memory_.full[stage].ArriveExpecting(num_tiles * device::kSplitTileBytes +
                                        device::kSplitRowsBytes);
    for (int j = 0; j < num_tiles; ++j) {
      CopyBox(Tiles::IsUp(j) ? task_.up : task_.weight,
              {walk.chunk * device::kSplitChunk, 0, Tiles::Output(walk.run, j)},
              memory_.stages[stage].weights[j], memory_.full[stage], policy_);
    }
  }
  __device__ void FetchRows(const Walk& walk, int stage) {
    CopyBox(task_.x, {walk.chunk * device::kSplitChunk, 0, 0},
            memory_.stages[stage].x, memory_.full[stage]);
  }

  const SplitTask<Out>& task_;
  SplitMemory& memory_;
  const device::CachePolicy policy_ = device::EvictFirst();
};

// Arrives, as a warp of block `rank`, at this barrier of every block of the
// cluster.
__device__ inline void TellBlocks(int rank, device::Mbarrier& barrier) {
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == rank) {
    barrier.Arrive();
  } else if (lane < kSplitBlocks) {
    device::ArriveInCluster(device::AddressIn(lane, &barrier));
  }
}

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
      device::WaitForBlocks(memory_.taken, parity ^ 1);
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
  __device__ void Multiply(const device::SplitStage& stage, int num_tiles,
                           bool accumulate, float (&sums)[kMostTiles][kSums]) {
    constexpr int kStepBytes = 32;  // of 16 inputs
    const device::SharedOperand<128> x(stage.x, 0);
    device::FenceProducts();
#pragma unroll
    for (int j = 0; j < kMostTiles; ++j) {
      const int tile = min(group_ + 2 * j, num_tiles - 1);
      const device::SharedOperand<128> weights(stage.weights[tile], 0);
#pragma unroll
      for (int at = 0; at < device::kSplitChunk * 2; at += kStepBytes) {
        device::MultiplyShared(sums[j], weights.Further(at), x.Further(at),
                               at > 0 || accumulate ? 1 : 0);
      }
    }
    device::CommitProducts();
    device::WaitForProducts<0>();
#pragma unroll
    for (int j = 0; j < kMostTiles; ++j) device::Landed(sums[j]);
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
      const int place = device::SplitSums::Place(output, piece);
      const float4* to = &memory_.sums.pieces[rank_][tile][output][place];
      device::StoreInCluster(device::AddressIn(i / 2, to), value);
    }
  }

  SplitMemory& memory_;
  const int rank_, group_, lane_;
  RingPlace<kSplitStages> place_;
};

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
      device::WaitForBlocks(memory.received, parity);
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
    return rank_ * device::kSplitOwnRows + Piece(p) * 4 + r;
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
    const int place = device::SplitSums::Place(Output(), Piece(p));
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
        task_.out[row * task_.out_stride + output] =
            device::FromFloat<Out>(value);
      }
    }
  }

  __device__ float Scaled(float sum, const Element* bias, int output) const {
    if (bias != nullptr) sum += device::ToFloat(bias[output]);
    return sum * task_.scale;
  }

  // Gate and up are rounded as products are.
  __device__ float Gated(float gate, float up) const {
    gate = device::ToFloat(device::FromFloat<Element>(gate));
    up = device::ToFloat(device::FromFloat<Element>(up));
    return device::Activate(task_.activation, gate) * up;
  }

  const SplitTask<Out>& task_;
  const SplitMemory& memory_;
  const int rank_, thread_;
  float residuals_[kSplitTiles][kPieces * 4] = {};
};

// A cluster takes a run of tiles of 64 outputs of all rows, each of its blocks
// a quarter of the inputs; each block then adds up a quarter of the rows. So
// the weights come once, and x, from L2, once a pass: a fourth of the weights'
// bytes where a pass has all its tiles. The order of a row's sums depends on
// `inputs` alone. Flops: 2 x 64 x inputs x outputs.
// (H200, a layer of Llama-3.1-8B's shape, 64 rows: 130.7 us; 136.4 where those
// that multiply also add up, 154.6 with two tiles a pass. Of these 16 go into
// sums that blocks send each other: 114.8 without. Of 132 multiprocessors 120
// have a place in clusters of four.)
template <typename Out, bool kGated>
__global__ void __launch_bounds__(kSplitThreads, 1)
    LinearSplitKernel(const __grid_constant__ SplitTask<Out> task) {
  extern __shared__ uint8_t shared[];
  // Swizzled rows repeat every 1,024 bytes.
  auto& memory = *reinterpret_cast<SplitMemory*>(
      shared + (1024 - device::SharedAddress(shared) % 1024) % 1024);
  if (threadIdx.x == 0) memory.Init();
  __syncthreads();
  device::ArriveAtCluster();
  device::LetNextBegin();
  const int block = static_cast<int>(blockIdx.x);
  const int rank = block % kSplitBlocks;
  const auto run = TileRun::Share(
      (task.outputs + kSplitOutputs - 1) / kSplitOutputs, block / kSplitBlocks,
      static_cast<int>(gridDim.x) / kSplitBlocks);
  const auto chunks = SplitChunks::OfBlock(task.inputs, rank);
  // The same in all lanes, as the compiler sees too.
  const int warp =
      __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  constexpr int kAddWarp = device::kSplitMultiplyWarps;
  constexpr int kFetchWarp = kAddWarp + device::kSplitAddWarps;
  if (warp == kFetchWarp && threadIdx.x % 32 == 0) {
    SplitFetch<Out, kGated>(task, memory).Run(run, chunks);
  } else {
    device::WaitForPrior();
  }
  // The others' barriers are set up. A block ends when all have sent what it
  // adds up: nobody writes to its memory then.
  device::WaitForCluster();
  if (warp < kAddWarp) {
    SplitMultiply<kGated>(memory, rank, warp / 4).Run(run, chunks);
  } else if (warp < kFetchWarp) {
    SplitAdd<Out, kGated>(task, memory, rank).Run(run, memory);
  }
}

constexpr int kMemoryBytes = int{sizeof(SplitMemory)} + 1024;

// How many clusters of such blocks run at once: parts of the device have
// multiprocessors that are left over.
template <typename Kernel>
int NumClusters(CudaQueue& queue, Kernel* kernel) {
  int& num_clusters = queue.device().num_split_clusters;
  if (num_clusters > 0) return num_clusters;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = kSplitBlocks;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kSplitBlocks);
  config.blockDim = dim3(kSplitThreads);
  config.dynamicSmemBytes = kMemoryBytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  queue.Keep(cudaOccupancyMaxActiveClusters(&num_clusters, kernel, &config),
             "asking how many clusters run at once");
  num_clusters = std::max(num_clusters, 1);
  return num_clusters;
}

template <typename Out, bool kGated>
void Launch(CudaQueue& queue, const SplitTask<Out>& task) {
  const auto kernel = LinearSplitKernel<Out, kGated>;
  queue.Keep(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMemoryBytes),
      "sizing Linear of split inputs");
  const int tiles = (task.outputs + kSplitOutputs - 1) / kSplitOutputs;
  const int clusters = std::min(tiles, NumClusters(queue, kernel));
  LaunchDependent(
      queue, "Linear of split inputs", kernel,
      {.blocks = dim3(static_cast<unsigned>(clusters * kSplitBlocks)),
       .num_threads = kSplitThreads,
       .shared_bytes = kMemoryBytes,
       .cluster_blocks = kSplitBlocks},
      task);
}

// [rows, inputs] in boxes of 64 by 64.
CUtensorMap MapMatrix(CudaQueue& queue, const View& matrix) {
  const int64_t stride = matrix.dim(0) > 1 ? matrix.stride[0] : matrix.dim(1);
  View rows = matrix;
  rows.rank = 3;
  rows.shape = {matrix.dim(0), 1, matrix.dim(1)};
  rows.stride = {stride, stride, 1};
  return MapRows(
      queue, rows,
      {.chunk = device::kSplitChunk, .heads = 1, .rows = kSplitRows});
}

template <typename Out>
SplitTask<Out> MakeTask(CudaQueue& queue, const LinearArgs& args,
                        const LinearPart& part, const View& out) {
  SplitTask<Out> task = {};
  task.weight = MapMatrix(queue, part.weight);
  task.x = MapMatrix(queue, args.x);
  task.bias = CudaData<Element>(part.bias);
  task.residual = CudaData<float>(args.residual);
  task.out = CudaData<Out>(out);
  task.residual_stride = args.residual.empty() ? 0 : args.residual.stride[0];
  task.out_stride = out.stride[0];
  task.rows = static_cast<int>(args.x.dim(0));
  task.inputs = static_cast<int>(args.x.dim(1));
  task.outputs = static_cast<int>(part.weight.dim(0));
  task.scale = args.scale;
  return task;
}

}  // namespace

bool LinearSplitTakes(const LinearArgs& args, const LinearPart& part) {
  static_assert(kSplitOutputs == kSplitRows, "one box for both factors");
  const auto aligned = [](const View& view) {
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 &&
           (view.dim(0) <= 1 || view.stride[0] % 8 == 0);
  };
  return !args.batch_invariant && args.x.dim(0) >= kMinRows &&
         args.x.dim(0) <= kSplitRows && args.x.dtype == Dtype::kBFloat16 &&
         args.x.dim(1) % 8 == 0 && aligned(args.x) && aligned(part.weight) &&
         part.weight.dim(0) > 0;
}

bool LinearSplitGates(const LinearArgs& args) {
  if (!args.gated_act) return false;
  const LinearPart &gate = args.parts[0], &up = args.parts[1];
  return LinearSplitTakes(args, gate) && LinearSplitTakes(args, up) &&
         gate.weight.dim(0) == up.weight.dim(0);
}

void EnqueueLinearSplit(CudaQueue& queue, const LinearArgs& args,
                        const LinearPart& part) {
  if (part.out.dtype == Dtype::kFloat32) {
    Launch<float, false>(queue, MakeTask<float>(queue, args, part, part.out));
  } else {
    Launch<Element, false>(queue,
                           MakeTask<Element>(queue, args, part, part.out));
  }
}

void EnqueueLinearSplitGated(CudaQueue& queue, const LinearArgs& args) {
  const LinearPart &gate = args.parts[0], &up = args.parts[1];
  SplitTask<Element> task =
      MakeTask<Element>(queue, args, gate, args.gated_act->out);
  task.up = MapMatrix(queue, up.weight);
  task.up_bias = CudaData<Element>(up.bias);
  task.activation = static_cast<device::Activation>(args.gated_act->activation);
  Launch<Element, true>(queue, task);
}

}  // namespace winnow
