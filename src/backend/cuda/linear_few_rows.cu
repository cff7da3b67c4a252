#include <algorithm>

#include "backend/cuda/cuda_types.h"
#include "backend/cuda/dependent_launch.h"
#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/few_rows_mma.cuh"
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

// A chunk's inputs of x: lane (g, t) has inputs [32 h + 8 t, + 8) of row g of
// each tile of rows, for the halves h.
template <typename T, int kRowTiles>
struct RowChunk {
  uint4 halves[kRowTiles][2];

  __device__ void Load(const FewRowsShape& shape, const T* x, int first) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const int row = i * kTileRows + lane / 4;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int input = first + h * kHalfInputs + lane % 4 * 8;
        halves[i][h] = row < shape.rows && input < shape.inputs
                           ? __ldcg(reinterpret_cast<const uint4*>(
                                 x + row * shape.x_stride + input))
                           : uint4{};
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
template <typename T, int kOutputTiles, int kRowTiles>
struct FewRowsMemory {
  static constexpr int kBlocksAnSm = kRowTiles == 1 ? 2 : 1;
  static constexpr int kStages = 6 / kOutputTiles;
  using Queue = device::WeightQueue<T, kOutputTiles, kStages>;
  static constexpr int kSums =
      kOutputTiles * kTileOutputs * kRowTiles * kTileRows;
  static constexpr int kSumBytes = kWarps * kSums * int{sizeof(float)};
  static constexpr int kBytes = kWarps * Queue::kWarpBytes + kSumBytes;
};

// One tile of out = residual + scale (x W^T + b), from all warps' sums, which
// are added in the warps' order.
template <typename T, typename Out, int kOutputs, int kRows>
__device__ void StoreTile(const FewRowsShape& shape, const float* of_warps,
                          int first_output, const T* bias,
                          const float* residual, Out* out) {
  for (int i = threadIdx.x; i < kRows * kOutputs; i += kWarps * 32) {
    const int row = i / kOutputs, output = first_output + i % kOutputs;
    if (row >= shape.rows || output >= shape.outputs) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += of_warps[w * kRows * kOutputs + i];
    if (bias != nullptr) sum += device::ToFloat(bias[output]);
    sum *= shape.scale;
    if (residual != nullptr) {
      sum += __ldcg(residual + row * shape.residual_stride + output);
    }
    out[row * shape.out_stride + output] = device::FromFloat<Out>(sum);
  }
}

// out [rows, outputs] = residual + scale (x W^T + b): a block
// takes every gridDim.x-th tile of kOutputTiles x 16 outputs of all rows, its
// warps every eighth chunk of the inputs. The order of a row's sums depends on
// `inputs` alone. Bytes: the weights once, x once a tile (from L2); flops:
// 2 x 8 kRowTiles x inputs x outputs.
template <typename T, typename Out, int kOutputTiles, int kRowTiles>
__global__ void __launch_bounds__(
    kWarps * 32, FewRowsMemory<T, kOutputTiles, kRowTiles>::kBlocksAnSm)
    LinearFewRowsKernel(FewRowsShape shape, const T* x, const T* weight,
                        const T* bias, const float* residual, Out* out) {
  using Memory = FewRowsMemory<T, kOutputTiles, kRowTiles>;
  constexpr int kOutputs = kOutputTiles * kTileOutputs;
  constexpr int kRows = kRowTiles * kTileRows;
  extern __shared__ uint4 shared[];
  auto* memory = reinterpret_cast<std::byte*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* sums =
      reinterpret_cast<float*>(memory + kWarps * Memory::Queue::kWarpBytes);
  typename Memory::Queue queue(
      {weight, shape.weight_stride, shape.inputs, shape.outputs},
      memory + warp * Memory::Queue::kWarpBytes);
  for (int i = 1; i < Memory::kStages; ++i) queue.Fetch();
  device::LetNextBegin();
  device::WaitForPrior();
  const int step = static_cast<int>(gridDim.x) * kOutputs;
  for (int output = static_cast<int>(blockIdx.x) * kOutputs;
       output < shape.outputs; output += step) {
    WarpProducts<T, kOutputTiles, kRowTiles> products;
    RowChunk<T, kRowTiles> of_x;
    of_x.Load(shape, x, warp * device::kChunkInputs);
    for (int first = warp * device::kChunkInputs; first < shape.inputs;
         first += kChunkStride) {
      RowChunk<T, kRowTiles> next;
      next.Load(shape, x, first + kChunkStride);
      uint4 weights[Memory::Queue::kPieces];
      queue.Take(weights);
      queue.Fetch();
      products.Take(weights, of_x);
      of_x = next;
    }
    products.Store(sums + warp * Memory::kSums);
    __syncthreads();
    StoreTile<T, Out, kOutputs, kRows>(shape, sums, output, bias, residual,
                                       out);
    __syncthreads();
  }
}

template <typename T, typename Out, int kOutputTiles, int kRowTiles>
void Launch(CudaQueue& queue, const FewRowsShape& shape, const LinearArgs& args,
            const LinearPart& part) {
  constexpr int kOutputs = kOutputTiles * kTileOutputs;
  using Memory = FewRowsMemory<T, kOutputTiles, kRowTiles>;
  constexpr int kBytes = Memory::kBytes;
  const auto kernel = LinearFewRowsKernel<T, Out, kOutputTiles, kRowTiles>;
  queue.Keep(cudaFuncSetAttribute(
                 kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
             "sizing Linear of few rows");
  const int tiles = (shape.outputs + kOutputs - 1) / kOutputs;
  const int blocks =
      std::min(tiles, Memory::kBlocksAnSm * queue.device().num_multiprocessors);
  LaunchDependent(queue, "Linear of few rows", kernel,
                  {.blocks = dim3(static_cast<unsigned>(blocks)),
                   .num_threads = kWarps * 32,
                   .shared_bytes = kBytes},
                  shape, CudaData<T>(args.x), CudaData<T>(part.weight),
                  CudaData<T>(part.bias), CudaData<float>(args.residual),
                  CudaData<Out>(part.out));
}

// Tiles of 32 outputs read x half as often, which matters from two tiles of
// rows on; but not where they leave multiprocessors idle in the last round.
template <typename T, typename Out>
void LaunchFor(CudaQueue& queue, const FewRowsShape& shape,
               const LinearArgs& args, const LinearPart& part) {
  if (shape.rows <= kTileRows) {
    return Launch<T, Out, 1, 1>(queue, shape, args, part);
  }
  const auto rounds = [&](int tile_outputs) {
    const int tiles = (shape.outputs + tile_outputs - 1) / tile_outputs;
    const int blocks = queue.device().num_multiprocessors;
    return (tiles + blocks - 1) / blocks;
  };
  if (10 * 2 * rounds(2 * kTileOutputs) <= 11 * rounds(kTileOutputs)) {
    Launch<T, Out, 2, 2>(queue, shape, args, part);
  } else {
    Launch<T, Out, 1, 2>(queue, shape, args, part);
  }
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

void EnqueueLinearFewRows(CudaQueue& queue, const LinearArgs& args,
                          const LinearPart& part) {
  const FewRowsShape shape = {
      .rows = static_cast<int>(args.x.dim(0)),
      .inputs = static_cast<int>(args.x.dim(1)),
      .outputs = static_cast<int>(part.weight.dim(0)),
      .x_stride = args.x.stride[0],
      .weight_stride = part.weight.stride[0],
      .residual_stride = args.residual.empty() ? 0 : args.residual.stride[0],
      .out_stride = part.out.stride[0],
      .scale = args.scale,
  };
  if (shape.outputs == 0) return;
  const auto launch = [&](auto element) {
    using T = decltype(element);
    if (part.out.dtype == Dtype::kFloat32) {
      LaunchFor<T, float>(queue, shape, args, part);
    } else {
      LaunchFor<T, T>(queue, shape, args, part);
    }
  };
  if (args.x.dtype == Dtype::kBFloat16) {
    launch(__nv_bfloat16());
  } else {
    launch(__half());
  }
}

}  // namespace winnow
