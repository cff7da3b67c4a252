#include "backend/cuda/cuda_types.h"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/few_rows_mma.cuh"
#include "backend/cuda/linear.h"

namespace winnow {
namespace {

constexpr int kWarps = 8;         // of a block: each has every kWarps-th chunk
constexpr int kTileOutputs = 16;  // outputs of one A fragment
constexpr int kTileRows = 8;      // rows of x of one B fragment
constexpr int kChunkInputs = 64;  // that a warp takes at a time
constexpr int kMaxRows = 2 * kTileRows;

struct FewRowsShape {
  int rows, inputs, outputs;
  int64_t x_stride, weight_stride, residual_stride, out_stride;
  float scale;
};

// 16 bytes that pass by once: eight inputs.
__device__ inline uint4 LoadOnce(const void* from) {
  return __ldcs(static_cast<const uint4*>(from));
}
__device__ inline uint4 LoadShared(const void* from) {
  return __ldg(static_cast<const uint4*>(from));
}

// The products of one warp: kOutputTiles x kRowTiles fragments, of the chunks
// that are its own.
template <typename T, int kOutputTiles, int kRowTiles>
struct WarpProducts {
  float sums[kOutputTiles][kRowTiles][4] = {};

  // Inputs [first, first + 32): lane (g, t) has [first + 8 t, + 8) of weight
  // rows g and g + 8, and of row g of x. An mma's inputs may come in any order
  // that both factors share: here pair i of a lane's eight stands where
  // inputs 2 t + 8 (i % 2) of product i / 2 would.
  __device__ void Take(const FewRowsShape& shape, const T* weight, const T* x,
                       int first_output, int first) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4, input = first + lane % 4 * 8;
    const bool inside = input < shape.inputs;
    uint4 of_x[kRowTiles];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const int row = i * kTileRows + g;
      of_x[i] = inside && row < shape.rows
                    ? LoadShared(x + row * shape.x_stride + input)
                    : uint4{};
    }
#pragma unroll
    for (int o = 0; o < kOutputTiles; ++o) {
      const int output = first_output + o * kTileOutputs + g;
      uint4 low = {}, high = {};
      if (inside && output < shape.outputs) {
        low = LoadOnce(weight + output * shape.weight_stride + input);
      }
      if (inside && output + 8 < shape.outputs) {
        high = LoadOnce(weight + (output + 8) * shape.weight_stride + input);
      }
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        device::MultiplyFewRows<T>({low.x, high.x, low.y, high.y},
                                   {of_x[i].x, of_x[i].y}, sums[o][i]);
        device::MultiplyFewRows<T>({low.z, high.z, low.w, high.w},
                                   {of_x[i].z, of_x[i].w}, sums[o][i]);
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

// out [rows, outputs] = residual + scale (x W^T + b): a block has kOutputTiles
// x 16 outputs of all rows, its warps every eighth chunk of the inputs; their
// sums are added in the warps' order. The order of a row's sums depends on
// `inputs` alone. Bytes: the weights once, x once a block (from L2); flops:
// 2 x 8 kRowTiles x inputs x outputs.
template <typename T, typename Out, int kOutputTiles, int kRowTiles>
__global__ void __launch_bounds__(kWarps * 32)
    LinearFewRowsKernel(FewRowsShape shape, const T* x, const T* weight,
                        const T* bias, const float* residual, Out* out) {
  constexpr int kOutputs = kOutputTiles * kTileOutputs;
  constexpr int kRows = kRowTiles * kTileRows;
  __shared__ float of_warps[kWarps][kRows * kOutputs];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
  WarpProducts<T, kOutputTiles, kRowTiles> products;
#pragma unroll 2
  for (int first = warp * kChunkInputs; first < shape.inputs;
       first += kWarps * kChunkInputs) {
    products.Take(shape, weight, x, first_output, first);
    products.Take(shape, weight, x, first_output, first + kChunkInputs / 2);
  }
  products.Store(of_warps[warp]);
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kOutputs; i += kWarps * 32) {
    const int row = i / kOutputs, output = first_output + i % kOutputs;
    if (row >= shape.rows || output >= shape.outputs) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += of_warps[w][i];
    if (bias != nullptr) sum += device::ToFloat(bias[output]);
    sum *= shape.scale;
    if (residual != nullptr) {
      sum += residual[row * shape.residual_stride + output];
    }
    out[row * shape.out_stride + output] = device::FromFloat<Out>(sum);
  }
}

template <typename T, typename Out, int kOutputTiles, int kRowTiles>
void Launch(CudaQueue& queue, const FewRowsShape& shape, const LinearArgs& args,
            const LinearPart& part) {
  constexpr int kOutputs = kOutputTiles * kTileOutputs;
  const auto blocks =
      static_cast<unsigned>((shape.outputs + kOutputs - 1) / kOutputs);
  LinearFewRowsKernel<T, Out, kOutputTiles, kRowTiles>
      <<<blocks, kWarps * 32, 0, queue.stream()>>>(
          shape, CudaData<T>(args.x), CudaData<T>(part.weight),
          CudaData<T>(part.bias), CudaData<float>(args.residual),
          CudaData<Out>(part.out));
}

// More outputs a block read x less often; fewer fill the device.
template <typename T, typename Out>
void LaunchFor(CudaQueue& queue, const FewRowsShape& shape,
               const LinearArgs& args, const LinearPart& part) {
  const int pairs = (shape.outputs + 2 * kTileOutputs - 1) / (2 * kTileOutputs);
  const bool fills = pairs >= 2 * queue.device().num_multiprocessors;
  if (shape.rows > kTileRows) {
    fills ? Launch<T, Out, 2, 2>(queue, shape, args, part)
          : Launch<T, Out, 1, 2>(queue, shape, args, part);
  } else {
    fills ? Launch<T, Out, 2, 1>(queue, shape, args, part)
          : Launch<T, Out, 1, 1>(queue, shape, args, part);
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
  queue.KeepLaunch("Linear of few rows");
}

}  // namespace winnow
