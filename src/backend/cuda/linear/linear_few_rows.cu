#include <algorithm>

#include "backend/cuda/device/linear/activation.cuh"
#include "backend/cuda/device/linear/few_rows_mma.cuh"
#include "backend/cuda/device/linear/few_rows_norm.cuh"
#include "backend/cuda/device/linear/few_rows_store.cuh"
#include "backend/cuda/device/linear/weight_queue.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/linear/linear.h"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"

namespace winnow {
namespace {

using device::FewRowsShape;
using device::FewRowsTask;
using device::kChunkStride;
using device::kHalfInputs;
using device::kTileOutputs;

constexpr int kWarps = device::kFewRowsWarps;
constexpr int kTileRows = 8;  // rows of x of one B fragment
constexpr int kMaxRows = 2 * kTileRows;

// The device's enum is the host's, number for number.
static_assert(static_cast<device::Activation>(Activation::kGeluTanh) ==
                  device::Activation::kGeluTanh &&
              static_cast<device::Activation>(Activation::kGelu) ==
                  device::Activation::kGelu);

// What is done in the product's launch: how x comes, and what becomes of sums.
// As bits, because nvcc takes no struct for a template's argument.
constexpr int kNorms = 1, kGates = 2;

// A chunk's inputs of x: lane (g, t) has inputs [32 h + 8 t, + 8) of row g of
// each tile of rows, for the halves h.
template <typename T, int kRowTiles>
struct RowChunk {
  uint4 halves[kRowTiles][2];

  template <bool kShared>  // where x lies
  __device__ void Load(const FewRowsShape& shape, const T* x, int first) {
    const auto stride = kShared
                            ? device::FewRowsNorm<T>::RowStride(shape.inputs)
                            : shape.x_stride;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const int row = i * kTileRows + lane / 4;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int input = first + h * kHalfInputs + lane % 4 * 8;
        if (row >= shape.rows || input >= shape.inputs) {
          halves[i][h] = uint4{};
          continue;
        }
        const auto* from =
            reinterpret_cast<const uint4*>(x + row * stride + input);
        halves[i][h] = kShared ? *from : __ldcg(from);
      }
    }
  }
};

// The sums of one warp: kTiles x kRowTiles fragments, of the chunks that are
// its own. An mma's inputs may come in any order that both factors share: pair
// i of a lane's eight stands where inputs 2 t + 8 (i % 2) of product i / 2
// would.
template <typename T, int kTiles, int kRowTiles>
struct WarpSums {
  float sums[kTiles][kRowTiles][4] = {};

  __device__ void Take(int tile, const uint4 (&weights)[4],
                       const RowChunk<T, kRowTiles>& x) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4 low = weights[h], high = weights[2 + h];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const uint4 row = x.halves[i][h];
        device::MultiplyFewRows<T>({low.x, high.x, low.y, high.y},
                                   {row.x, row.y}, sums[tile][i]);
        device::MultiplyFewRows<T>({low.z, high.z, low.w, high.w},
                                   {row.z, row.w}, sums[tile][i]);
      }
    }
  }

  // `to` [tiles, warps, rows, outputs of a tile], from this warp's on. Lane
  // (g, t) has outputs g and g + 8 of rows 2 t and 2 t + 1.
  __device__ void Store(int num_tiles, float* to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4, t = lane % 4;
    constexpr int kSums = kRowTiles * kTileRows * kTileOutputs;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (tile >= num_tiles) break;
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int output = g + j / 2 * 8;
          const int row = i * kTileRows + 2 * t + j % 2;
          to[tile * kWarps * kSums + row * kTileOutputs + output] =
              sums[tile][i][j];
        }
      }
    }
  }
};

// How the kernel uses a multiprocessor: weights on their way, and the warps'
// sums of a pass. One row has passes of one tile and blocks of which two fit:
// while one adds up a tile the other's weights come, and where one ends the
// next kernel's begin to come. Of more rows x, which comes from L2, fills the
// way into a multiprocessor beside the weights: of 16 as much as a tile of
// them. So these have passes of four, and one block the weights of two (H200,
// steps of Llama-3.1-8B's shape behind 1K: 16 rows 5.46 ms with passes of two
// tiles or one, 5.01 so; 8 rows 4.79 with one, 4.42 so. Passes of seven took
// 0.04 ms less of 16 rows, and no less of 8; registers that leave room for
// RmsNorm's block beside this one, 0.15 ms more).
template <typename T, int kTiles, int kRowTiles, bool kGated>
struct FewRowsMemory {
  static constexpr int kBlocksAnSm = kTiles == 1 ? 2 : 1;
  static constexpr int kStages = kTiles == 1 ? 6 : 12;
  using Queue = device::WeightQueue<T, kTiles, kStages, kGated>;
  static constexpr int kSums = kTileOutputs * kRowTiles * kTileRows;
  static constexpr int kSumBytes = kTiles * kWarps * kSums * int{sizeof(float)};
  static constexpr int kBytes = kWarps * Queue::kWarpBytes + kSumBytes;
};

// out [rows, outputs] = residual + scale (x W^T + b): a block takes a run of
// tiles of 16 outputs of all rows, kTiles in a pass, its warps every eighth
// chunk of the inputs. The order of a row's sums depends on `inputs` alone.
// Where it norms, every block makes x itself, in the place of a launch and of
// x's way through memory. Bytes: the weights once, x once a pass (from L2), or
// once a block; flops: 2 x 8 kRowTiles x inputs x outputs.
template <typename T, typename Out, int kTiles, int kRowTiles, int kAround>
__global__ void __launch_bounds__(
    kWarps * 32,
    FewRowsMemory<T, kTiles, kRowTiles, (kAround & kGates) != 0>::kBlocksAnSm)
    LinearFewRowsKernel(const __grid_constant__ FewRowsTask<T, Out> task) {
  constexpr bool kNormed = (kAround & kNorms) != 0;
  constexpr bool kGated = (kAround & kGates) != 0;
  using Memory = FewRowsMemory<T, kTiles, kRowTiles, kGated>;
  using Queue = typename Memory::Queue;
  extern __shared__ uint4 shared[];
  __shared__ typename device::FewRowsNorm<T>::Memory norm_memory;
  auto* memory = reinterpret_cast<std::byte*>(shared);
  const FewRowsShape& shape = task.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* sums = reinterpret_cast<float*>(memory + kWarps * Queue::kWarpBytes);
  auto run = device::TileRun::Share(
      (shape.outputs + Queue::kOutputs - 1) / Queue::kOutputs,
      static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  Queue queue(
      {task.weight, task.up, shape.weight_stride, shape.inputs, shape.outputs},
      run, memory + warp * Queue::kWarpBytes);
  for (int i = 1; i < Memory::kStages; ++i) queue.Load();
  device::LetNextBegin();
  const T* x = task.x;
  if constexpr (kNormed) {
    T* normed = reinterpret_cast<T*>(memory + Memory::kBytes);
    task.norm.LoadWeights(shape.rows, shape.inputs, normed);
    device::WaitForPrior();
    task.norm.Run(shape.rows, shape.inputs, blockIdx.x == 0, normed,
                  norm_memory);
    x = normed;
  } else {
    device::WaitForPrior();
  }
  while (run.left > 0) {
    const int num_tiles = run.template PassTiles<kTiles>();
    device::PassNumbers<T, Out, kTiles, kRowTiles * kTileRows, kGated> numbers(
        task, run, num_tiles);
    numbers.LoadResidual();
    WarpSums<T, kTiles, kRowTiles> products;
    RowChunk<T, kRowTiles> of_x;
    of_x.template Load<kNormed>(shape, x, warp * device::kChunkInputs);
    for (int first = warp * device::kChunkInputs; first < shape.inputs;
         first += kChunkStride) {
      RowChunk<T, kRowTiles> next;
      next.template Load<kNormed>(shape, x, first + kChunkStride);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        if (tile >= num_tiles) break;
        uint4 weights[Queue::kPieces];
        queue.Take(weights);
        queue.Load();
        products.Take(tile, weights, of_x);
      }
      of_x = next;
    }
    products.Store(num_tiles, sums + warp * Memory::kSums);
    __syncthreads();
    numbers.Store(sums);
    __syncthreads();
    run.Take(num_tiles);
  }
}

// What a multiprocessor's two blocks have besides weights and sums.
constexpr int kMaxNormBytes = 12800;

int NormBytes(const LinearArgs& args) {
  constexpr int64_t kBytes = 2;  // of a number
  const int64_t row = args.x.dim(1) + device::kNormRowGap;
  return static_cast<int>(args.x.dim(0) * row * kBytes);
}

template <typename T, typename Out, int kTiles, int kRowTiles, int kAround>
void Launch(CudaQueue& queue, const FewRowsTask<T, Out>& task, int norm_bytes) {
  using Memory = FewRowsMemory<T, kTiles, kRowTiles, (kAround & kGates) != 0>;
  constexpr int kOutputs = Memory::Queue::kOutputs;
  constexpr int kMostBytes =
      Memory::kBytes + ((kAround & kNorms) != 0 ? kMaxNormBytes : 0);
  const auto kernel = LinearFewRowsKernel<T, Out, kTiles, kRowTiles, kAround>;
  queue.Keep(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMostBytes),
      "sizing Linear of few rows");
  const int tiles = (task.shape.outputs + kOutputs - 1) / kOutputs;
  const int blocks =
      std::min(tiles, Memory::kBlocksAnSm * queue.device().num_multiprocessors);
  LaunchDependent(queue, "Linear of few rows", kernel,
                  {.blocks = dim3(static_cast<unsigned>(blocks)),
                   .num_threads = kWarps * 32,
                   .shared_bytes = Memory::kBytes + norm_bytes},
                  task);
}

template <typename T, typename Out, bool kGated>
void LaunchFor(CudaQueue& queue, const FewRowsTask<T, Out>& task,
               int norm_bytes) {
  constexpr int kPlain = kGated ? kGates : 0, kNormed = kPlain + kNorms;
  const int rows = task.shape.rows;
  if (norm_bytes > 0) {
    return Launch<T, Out, 1, 1, kNormed>(queue, task, norm_bytes);
  }
  if (rows == 1) return Launch<T, Out, 1, 1, kPlain>(queue, task, 0);
  if (rows <= kTileRows) return Launch<T, Out, 4, 1, kPlain>(queue, task, 0);
  Launch<T, Out, 4, 2, kPlain>(queue, task, 0);
}

template <typename T, typename Out>
FewRowsTask<T, Out> MakeTask(const LinearArgs& args, const LinearPart& part,
                             const View& out) {
  FewRowsTask<T, Out> task = {};
  task.shape = {
      .rows = static_cast<int>(args.x.dim(0)),
      .inputs = static_cast<int>(args.x.dim(1)),
      .outputs = static_cast<int>(part.weight.rows),
      .x_stride = args.x.stride[0],
      .weight_stride = part.weight.codes.stride[0],
      .residual_stride = args.residual.empty() ? 0 : args.residual.stride[0],
      .out_stride = out.stride[0],
      .scale = args.scale,
  };
  task.x = CudaData<T>(args.x);
  task.weight = CudaData<T>(part.weight.codes);
  task.bias = CudaData<T>(part.bias);
  task.residual = CudaData<float>(args.residual);
  task.out = CudaData<Out>(out);
  if (args.norm) {
    task.norm = {.x = CudaData<float>(args.norm->x),
                 .weight = CudaData<T>(args.norm->weight),
                 .out = CudaData<T>(args.x),
                 .x_stride = args.norm->x.stride[0],
                 .out_stride = args.x.stride[0],
                 .epsilon = args.norm->epsilon};
  }
  return task;
}

// Calls launch(T()) with the type of x.
template <typename Visit>
void WithHalf(Dtype dtype, Visit&& visit) {
  if (dtype == Dtype::kBFloat16) return visit(__nv_bfloat16());
  visit(__half());
}

}  // namespace

bool LinearFewRowsTakes(const LinearArgs& args, const LinearPart& part) {
  const auto aligned = [](const View& view) {
    return reinterpret_cast<uintptr_t>(view.data) % sizeof(uint4) == 0 &&
           (view.dim(0) <= 1 || view.stride[0] % 8 == 0);
  };
  return !args.batch_invariant && args.x.dim(0) <= kMaxRows &&
         args.x.dtype != Dtype::kFloat32 && args.x.dim(1) % 8 == 0 &&
         aligned(args.x) && aligned(part.weight.codes);
}

bool LinearFewRowsNorms(const LinearArgs& args) {
  // Shorter rows are summed by a warp.
  constexpr int64_t kMinRow = 513;
  return args.norm && args.norm->weight.dtype == args.x.dtype &&
         args.x.dim(1) >= kMinRow && args.x.dim(1) <= device::kMaxNormRow &&
         NormBytes(args) <= kMaxNormBytes;
}

bool LinearFewRowsGates(const LinearArgs& args) {
  if (!args.gated_act) return false;
  const GatedParts parts = GatedPartsOf(args);
  const LinearPart &gate = parts.gate, &up = parts.up;
  return LinearFewRowsTakes(args, gate) && LinearFewRowsTakes(args, up) &&
         gate.weight.rows == up.weight.rows &&
         gate.weight.codes.stride[0] == up.weight.codes.stride[0];
}

void EnqueueLinearFewRows(CudaQueue& queue, const LinearArgs& args,
                          const LinearPart& part) {
  if (part.weight.rows == 0) return;
  const int norm_bytes = args.norm ? NormBytes(args) : 0;
  WithHalf(args.x.dtype, [&](auto element) {
    using T = decltype(element);
    if (part.out.dtype == Dtype::kFloat32) {
      LaunchFor<T, float, false>(
          queue, MakeTask<T, float>(args, part, part.out), norm_bytes);
    } else {
      LaunchFor<T, T, false>(queue, MakeTask<T, T>(args, part, part.out),
                             norm_bytes);
    }
  });
}

void EnqueueLinearFewRowsGated(CudaQueue& queue, const LinearArgs& args) {
  const GatedParts parts = GatedPartsOf(args);
  const LinearPart &gate = parts.gate, &up = parts.up;
  if (gate.weight.rows == 0) return;
  const int norm_bytes = args.norm ? NormBytes(args) : 0;
  WithHalf(args.x.dtype, [&](auto element) {
    using T = decltype(element);
    FewRowsTask<T, T> task = MakeTask<T, T>(args, gate, args.gated_act->out);
    task.up = CudaData<T>(up.weight.codes);
    task.up_bias = CudaData<T>(up.bias);
    task.activation =
        static_cast<device::Activation>(args.gated_act->activation);
    LaunchFor<T, T, true>(queue, task, norm_bytes);
  });
}

}  // namespace winnow
