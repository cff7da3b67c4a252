#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/linear/linear.h"
#include "backend/cuda/runtime/cuda_types.h"

namespace winnow {
namespace {

constexpr int kWarps = 8;

struct RowsShape {
  int64_t rows, inputs, outputs;
  int64_t x_stride, weight_stride, residual_stride, out_stride;
  float scale;
};

// out[row, n] = residual + scale (x W^T + b): a warp an element, its lanes
// over `inputs`, so that the order of the sum depends on nothing else.
// Bytes: (x and W once an element), 2 flops an input.
template <typename T, typename Out>
__global__ void LinearRowsKernel(RowsShape shape, const T* x, const T* weight,
                                 const T* bias, const float* residual,
                                 Out* out) {
  const int64_t element = blockIdx.x * int64_t{kWarps} + threadIdx.x / warpSize;
  if (element >= shape.rows * shape.outputs) return;
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  const int64_t row = element / shape.outputs, n = element % shape.outputs;
  const T* x_row = x + row * shape.x_stride;
  const T* weight_row = weight + n * shape.weight_stride;
  float sum = 0;
  for (int64_t i = lane; i < shape.inputs; i += warpSize) {
    sum = fmaf(device::ToFloat(x_row[i]), device::ToFloat(weight_row[i]), sum);
  }
  for (int offset = warpSize / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if (lane != 0) return;
  if (bias != nullptr) sum += device::ToFloat(bias[n]);
  sum *= shape.scale;
  if (residual != nullptr) sum += residual[row * shape.residual_stride + n];
  out[row * shape.out_stride + n] = device::FromFloat<Out>(sum);
}

}  // namespace

void EnqueueLinearRows(CudaQueue& queue, const LinearArgs& args,
                       const LinearPart& part) {
  const RowsShape shape = {
      .rows = args.x.dim(0),
      .inputs = args.x.dim(1),
      .outputs = part.weight.rows,
      .x_stride = args.x.stride[0],
      .weight_stride = part.weight.codes.stride[0],
      .residual_stride = args.residual.empty() ? 0 : args.residual.stride[0],
      .out_stride = part.out.stride[0],
      .scale = args.scale,
  };
  const int64_t num_elements = shape.rows * shape.outputs;
  if (num_elements == 0) return;
  const auto blocks =
      static_cast<unsigned>((num_elements + kWarps - 1) / kWarps);
  const auto launch = [&](auto element, auto out) {
    using T = decltype(element);
    using Out = decltype(out);
    LinearRowsKernel<T, Out><<<blocks, kWarps * 32, 0, queue.stream()>>>(
        shape, CudaData<T>(args.x), CudaData<T>(part.weight.codes),
        CudaData<T>(part.bias), CudaData<float>(args.residual),
        CudaData<Out>(part.out));
  };
  WithCudaFloat(args.x.dtype, [&](auto element) {
    if (part.out.dtype == Dtype::kFloat32) {
      launch(element, float());
    } else {
      launch(element, element);
    }
  });
  queue.KeepLaunch("Linear");
}

}  // namespace winnow
