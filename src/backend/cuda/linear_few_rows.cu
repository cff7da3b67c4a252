#include <algorithm>

#include "backend/cuda/cuda_types.h"
#include "backend/cuda/dependent_launch.h"
#include "backend/cuda/device/activation.cuh"
#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/few_rows_mma.cuh"
#include "backend/cuda/device/few_rows_norm.cuh"
#include "backend/cuda/device/weight_queue.cuh"
#include "backend/cuda/linear.h"

namespace winnow {
namespace {

using device::kChunkStride;
using device::kHalfInputs;
using device::kTileOutputs;

constexpr int kWarps = device::kFewRowsWarps;
constexpr int kTileRows = 8;  // rows of x of one B fragment
constexpr int kMaxRows = 2 * kTileRows;

struct FewRowsShape {
  int rows, inputs, outputs;
  int64_t x_stride, weight_stride, residual_stride, out_stride;
  float scale;
};

// One product. With `up`, of the weights' shape, out = activation(gate) * up.
template <typename T, typename Out>
struct FewRowsTask {
  FewRowsShape shape;
  const T *x, *weight, *bias, *up, *up_bias;
  const float* residual;
  Out* out;
  device::Activation activation;
  device::FewRowsNorm<T> norm;
};

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

// The products of one warp: kOutputTiles x kRowTiles fragments, of the chunks
// that are its own. An mma's inputs may come in any order that both factors
// share: pair i of a lane's eight stands where inputs 2 t + 8 (i % 2) of
// product i / 2 would.
template <typename T, int kOutputTiles, int kRowTiles>
struct WarpProducts {
  float sums[kOutputTiles][kRowTiles][4] = {};

  __device__ void Take(const uint4 (&weights)[4 * kOutputTiles],
                       const RowChunk<T, kRowTiles>& x) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int o = 0; o < kOutputTiles; ++o) {
        const uint4 low = weights[4 * o + h], high = weights[4 * o + 2 + h];
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          const uint4 row = x.halves[i][h];
          device::MultiplyFewRows<T>({low.x, high.x, low.y, high.y},
                                     {row.x, row.y}, sums[o][i]);
          device::MultiplyFewRows<T>({low.z, high.z, low.w, high.w},
                                     {row.z, row.w}, sums[o][i]);
        }
      }
    }
  }

  // Lane (g, t) has outputs g and g + 8 of rows 2 t and 2 t + 1.
  __device__ void Store(float* to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int o = 0; o < kOutputTiles; ++o) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int output = o * kTileOutputs + g + j / 2 * 8;
          const int row = i * kTileRows + 2 * t + j % 2;
          to[row * (kOutputTiles * kTileOutputs) + output] = sums[o][i][j];
        }
      }
    }
  }
};

// How the kernel uses a multiprocessor: weights on their way, and the warps'
// sums of a tile, of blocks of which two fit: while one adds up a tile the
// other's weights come, and where one ends the next kernel's begin to come. Of
// two tiles of rows one block is the better (H200, 16 rows of Llama-3.1-8B's
// products: 132 us a layer against 146): x, which all of them read again and
// again, has more of L2.
template <typename T, int kOutputTiles, int kRowTiles, bool kGated>
struct FewRowsMemory {
  static constexpr int kBlocksAnSm = kRowTiles == 1 ? 2 : 1;
  static constexpr int kStages = 6 / kOutputTiles;
  using Queue = device::WeightQueue<T, kOutputTiles, kStages, kGated>;
  static constexpr int kSums =
      kOutputTiles * kTileOutputs * kRowTiles * kTileRows;
  static constexpr int kSumBytes = kWarps * kSums * int{sizeof(float)};
  static constexpr int kBytes = kWarps * Queue::kWarpBytes + kSumBytes;
};

// A number of a tile: all warps' sums, in the warps' order.
template <int kSums>
__device__ float SumOfWarps(const float* of_warps, int at) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += of_warps[w * kSums + at];
  return sum;
}

// One tile of out = residual + scale (x W^T + b).
template <typename T, typename Out, int kOutputs, int kRows>
__device__ void StoreTile(const FewRowsTask<T, Out>& task,
                          const float* of_warps, int first_output) {
  const FewRowsShape& shape = task.shape;
  for (int i = threadIdx.x; i < kRows * kOutputs; i += kWarps * 32) {
    const int row = i / kOutputs, output = first_output + i % kOutputs;
    if (row >= shape.rows || output >= shape.outputs) continue;
    float sum = SumOfWarps<kRows * kOutputs>(of_warps, i);
    if (task.bias != nullptr) sum += device::ToFloat(task.bias[output]);
    sum *= shape.scale;
    if (task.residual != nullptr) {
      sum += __ldcg(task.residual + row * shape.residual_stride + output);
    }
    task.out[row * shape.out_stride + output] = device::FromFloat<Out>(sum);
  }
}

// One tile of out = activation(gate) * up, of which kOutputs sums make half as
// many: gate and up are rounded as products are.
template <typename T, int kOutputs, int kRows>
__device__ void StoreGatedTile(const FewRowsTask<T, T>& task,
                               const float* of_warps, int first_output) {
  const FewRowsShape& shape = task.shape;
  constexpr int kHalf = kTileOutputs / 2;
  for (int i = threadIdx.x; i < kRows * kOutputs / 2; i += kWarps * 32) {
    const int row = i / (kOutputs / 2), in_tile = i % (kOutputs / 2);
    const int output = first_output + in_tile;
    if (row >= shape.rows || output >= shape.outputs) continue;
    const int at =
        row * kOutputs + in_tile / kHalf * kTileOutputs + in_tile % kHalf;
    float gate = SumOfWarps<kRows * kOutputs>(of_warps, at);
    float up = SumOfWarps<kRows * kOutputs>(of_warps, at + kHalf);
    if (task.bias != nullptr) gate += device::ToFloat(task.bias[output]);
    if (task.up_bias != nullptr) up += device::ToFloat(task.up_bias[output]);
    gate = device::ToFloat(device::FromFloat<T>(gate * shape.scale));
    up = device::ToFloat(device::FromFloat<T>(up * shape.scale));
    task.out[row * shape.out_stride + output] =
        device::FromFloat<T>(device::Activate(task.activation, gate) * up);
  }
}

// out [rows, outputs] = residual + scale (x W^T + b): a block
// takes every gridDim.x-th tile of kOutputTiles x 16 outputs of all rows, its
// warps every eighth chunk of the inputs. The order of a row's sums depends on
// `inputs` alone. Where it norms, every block makes x itself, in the place of a
// launch and of x's way through memory. Bytes: the weights once, x once a tile
// (from L2), or once a block; flops: 2 x 8 kRowTiles x inputs x outputs.
template <typename T, typename Out, int kOutputTiles, int kRowTiles,
          int kAround>
__global__ void __launch_bounds__(
    kWarps * 32, FewRowsMemory<T, kOutputTiles, kRowTiles,
                               (kAround & kGates) != 0>::kBlocksAnSm)
    LinearFewRowsKernel(const __grid_constant__ FewRowsTask<T, Out> task) {
  constexpr bool kNormed = (kAround & kNorms) != 0;
  constexpr bool kGated = (kAround & kGates) != 0;
  using Memory = FewRowsMemory<T, kOutputTiles, kRowTiles, kGated>;
  constexpr int kOutputs = kOutputTiles * kTileOutputs;
  constexpr int kRows = kRowTiles * kTileRows;
  extern __shared__ uint4 shared[];
  __shared__ typename device::FewRowsNorm<T>::Memory norm_memory;
  auto* memory = reinterpret_cast<std::byte*>(shared);
  const FewRowsShape& shape = task.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* sums =
      reinterpret_cast<float*>(memory + kWarps * Memory::Queue::kWarpBytes);
  typename Memory::Queue queue(
      {task.weight, task.up, shape.weight_stride, shape.inputs, shape.outputs},
      memory + warp * Memory::Queue::kWarpBytes);
  for (int i = 1; i < Memory::kStages; ++i) queue.Fetch();
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
  constexpr int kNew = kGated ? kOutputs / 2 : kOutputs;
  const int step = static_cast<int>(gridDim.x) * kNew;
  for (int output = static_cast<int>(blockIdx.x) * kNew; output < shape.outputs;
       output += step) {
    WarpProducts<T, kOutputTiles, kRowTiles> products;
    RowChunk<T, kRowTiles> of_x;
    of_x.template Load<kNormed>(shape, x, warp * device::kChunkInputs);
    for (int first = warp * device::kChunkInputs; first < shape.inputs;
         first += kChunkStride) {
      RowChunk<T, kRowTiles> next;
      next.template Load<kNormed>(shape, x, first + kChunkStride);
      uint4 weights[Memory::Queue::kPieces];
      queue.Take(weights);
      queue.Fetch();
      products.Take(weights, of_x);
      of_x = next;
    }
    products.Store(sums + warp * Memory::kSums);
    __syncthreads();
    if constexpr (kGated) {
      StoreGatedTile<T, kOutputs, kRows>(task, sums, output);
    } else {
      StoreTile<T, Out, kOutputs, kRows>(task, sums, output);
    }
    __syncthreads();
  }
}

// What a multiprocessor's two blocks have besides weights and sums.
constexpr int kMaxNormBytes = 12800;

int NormBytes(const LinearArgs& args) {
  constexpr int64_t kBytes = 2;  // of a number
  const int64_t row = args.x.dim(1) + device::kNormRowGap;
  return static_cast<int>(args.x.dim(0) * row * kBytes);
}

template <typename T, typename Out, int kOutputTiles, int kRowTiles,
          int kAround>
void Launch(CudaQueue& queue, const FewRowsTask<T, Out>& task, int norm_bytes) {
  using Memory =
      FewRowsMemory<T, kOutputTiles, kRowTiles, (kAround & kGates) != 0>;
  constexpr int kOutputs =
      kOutputTiles * kTileOutputs / ((kAround & kGates) != 0 ? 2 : 1);
  constexpr int kMostBytes =
      Memory::kBytes + ((kAround & kNorms) != 0 ? kMaxNormBytes : 0);
  const auto kernel =
      LinearFewRowsKernel<T, Out, kOutputTiles, kRowTiles, kAround>;
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

// Tiles of 32 outputs read x half as often, which matters from two tiles of
// rows on; but not where they leave multiprocessors idle in the last round.
template <typename T, typename Out, bool kGated>
void LaunchFor(CudaQueue& queue, const FewRowsTask<T, Out>& task,
               int norm_bytes) {
  constexpr int kPlain = kGated ? kGates : 0, kNormed = kPlain + kNorms;
  if (norm_bytes > 0) {
    return Launch<T, Out, 1, 1, kNormed>(queue, task, norm_bytes);
  }
  if (task.shape.rows <= kTileRows) {
    return Launch<T, Out, 1, 1, kPlain>(queue, task, 0);
  }
  const auto rounds = [&](int tile_outputs) {
    const int of_matrices = kGated ? 2 : 1;
    const int tiles =
        (of_matrices * task.shape.outputs + tile_outputs - 1) / tile_outputs;
    const int blocks = queue.device().num_multiprocessors;
    return (tiles + blocks - 1) / blocks;
  };
  if (10 * 2 * rounds(2 * kTileOutputs) <= 11 * rounds(kTileOutputs)) {
    Launch<T, Out, 2, 2, kPlain>(queue, task, 0);
  } else {
    Launch<T, Out, 1, 2, kPlain>(queue, task, 0);
  }
}

template <typename T, typename Out>
FewRowsTask<T, Out> MakeTask(const LinearArgs& args, const LinearPart& part,
                             const View& out) {
  FewRowsTask<T, Out> task = {};
  task.shape = {
      .rows = static_cast<int>(args.x.dim(0)),
      .inputs = static_cast<int>(args.x.dim(1)),
      .outputs = static_cast<int>(part.weight.dim(0)),
      .x_stride = args.x.stride[0],
      .weight_stride = part.weight.stride[0],
      .residual_stride = args.residual.empty() ? 0 : args.residual.stride[0],
      .out_stride = out.stride[0],
      .scale = args.scale,
  };
  task.x = CudaData<T>(args.x);
  task.weight = CudaData<T>(part.weight);
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
         aligned(args.x) && aligned(part.weight);
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
  const LinearPart &gate = args.parts[0], &up = args.parts[1];
  return LinearFewRowsTakes(args, gate) && LinearFewRowsTakes(args, up) &&
         gate.weight.dim(0) == up.weight.dim(0) &&
         gate.weight.stride[0] == up.weight.stride[0];
}

void EnqueueLinearFewRows(CudaQueue& queue, const LinearArgs& args,
                          const LinearPart& part) {
  if (part.weight.dim(0) == 0) return;
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
  const LinearPart &gate = args.parts[0], &up = args.parts[1];
  if (gate.weight.dim(0) == 0) return;
  const int norm_bytes = args.norm ? NormBytes(args) : 0;
  WithHalf(args.x.dtype, [&](auto element) {
    using T = decltype(element);
    FewRowsTask<T, T> task = MakeTask<T, T>(args, gate, args.gated_act->out);
    task.up = CudaData<T>(up.weight);
    task.up_bias = CudaData<T>(up.bias);
    task.activation =
        static_cast<device::Activation>(args.gated_act->activation);
    LaunchFor<T, T, true>(queue, task, norm_bytes);
  });
}

}  // namespace winnow
