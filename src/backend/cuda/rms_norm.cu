#include "backend/cuda/cuda_types.h"
#include "backend/cuda/dependent_launch.h"
#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/row_sum.cuh"
#include "backend/cuda/row_verbs.h"

namespace winnow {
namespace {

struct NormShape {
  int64_t rows, size;
  int64_t heads;  // that a row is made of: 1 where it is one
  int64_t x_stride, x_head_stride, out_stride, out_head_stride;
  float epsilon;

  __device__ int64_t XOffset(int64_t row) const {
    return row / heads * x_stride + row % heads * x_head_stride;
  }
  __device__ int64_t OutOffset(int64_t row) const {
    return row / heads * out_stride + row % heads * out_head_stride;
  }
};

// Rows of at most this size, such as one head's, take a warp each.
constexpr int64_t kMaxWarpRow = 512;
constexpr int kWarpRows = 4;  // a block
constexpr int kRowThreads = 512;

// The threads that share a row: a warp or a block.
struct Warp {
  int lane;  // of the calling thread
  static constexpr int kLanes = 32;
  __device__ float Sum(float value) const { return device::WarpSum(value); }
};
struct Block {
  int lane;
  float* of_warps;  // shared memory of 32 floats
  static constexpr int kLanes = kRowThreads;
  __device__ float Sum(float value) const {
    return device::BlockSum(value, of_warps);
  }
};

// out = x / rms(x) * weight. A thread sums and writes every kLanes-th number;
// `out` may be `x`.
template <typename X, typename W, typename Out, typename Threads>
__device__ void NormalizeRow(const NormShape& shape, const X* x,
                             const W* weight, Out* out,
                             const Threads& threads) {
  constexpr int kLanes = Threads::kLanes;
  float sum = 0;
  for (int64_t i = threads.lane; i < shape.size; i += kLanes) {
    const float value = device::ToFloat(x[i]);
    sum = fmaf(value, value, sum);
  }
  const float mean = threads.Sum(sum) / static_cast<float>(shape.size);
  const float factor = 1.0f / sqrtf(mean + shape.epsilon);
  for (int64_t i = threads.lane; i < shape.size; i += kLanes) {
    out[i] = device::FromFloat<Out>(device::ToFloat(x[i]) * factor *
                                    device::ToFloat(weight[i]));
  }
}

// A warp a row.
template <typename X, typename W, typename Out>
__global__ void RmsNormWarpKernel(NormShape shape, const X* x, const W* weight,
                                  Out* out) {
  device::BeginAfterPrior();
  const int64_t row = blockIdx.x * int64_t{kWarpRows} + threadIdx.x / warpSize;
  if (row >= shape.rows) return;
  NormalizeRow(shape, x + shape.XOffset(row), weight,
               out + shape.OutOffset(row),
               Warp{static_cast<int>(threadIdx.x) % warpSize});
}

// A block a row.
template <typename X, typename W, typename Out>
__global__ void RmsNormBlockKernel(NormShape shape, const X* x, const W* weight,
                                   Out* out) {
  __shared__ float of_warps[32];
  device::BeginAfterPrior();
  const int64_t row = blockIdx.x;
  NormalizeRow(shape, x + shape.XOffset(row), weight,
               out + shape.OutOffset(row),
               Block{static_cast<int>(threadIdx.x), of_warps});
}

// The same for rows whose numbers the threads can hold: read once, and the
// weights before the row is there. The same bits.
constexpr int kHeldNumbers = 16;  // a thread
constexpr int64_t kMaxHeldRow = kHeldNumbers * kRowThreads;
template <typename X, typename W, typename Out>
__global__ void __launch_bounds__(kRowThreads)
    RmsNormHeldKernel(NormShape shape, const X* x, const W* weight, Out* out) {
  __shared__ float of_warps[32];
  const int64_t row = blockIdx.x;
  const int size = static_cast<int>(shape.size);
  float weights[kHeldNumbers], values[kHeldNumbers];
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kRowThreads;
    weights[k] = i < size ? device::ToFloat(weight[i]) : 0.0f;
  }
  device::BeginAfterPrior();
  x += shape.XOffset(row);
  out += shape.OutOffset(row);
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kRowThreads;
    values[k] = i < size ? device::ToFloat(x[i]) : 0.0f;
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) sum = fmaf(values[k], values[k], sum);
  const float mean =
      device::BlockSum(sum, of_warps) / static_cast<float>(shape.size);
  const float factor = 1.0f / sqrtf(mean + shape.epsilon);
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kRowThreads;
    if (i >= size) break;
    out[i] = device::FromFloat<Out>(values[k] * factor * weights[k]);
  }
}

}  // namespace

void EnqueueRmsNorm(CudaQueue& queue, const RmsNormArgs& args) {
  const int rank = args.x.rank;
  CHECK((rank == 2 || rank == 3) && args.out.rank == rank &&
            args.out.shape == args.x.shape &&
            args.weight.dim(0) == args.x.dim(rank - 1),
        "x {} weight {} out {}", ToString(args.x), ToString(args.weight),
        ToString(args.out));
  const int64_t heads = rank == 3 ? args.x.dim(1) : 1;
  const NormShape shape = {.rows = args.x.dim(0) * heads,
                           .size = args.weight.dim(0),
                           .heads = heads,
                           .x_stride = args.x.stride[0],
                           .x_head_stride = args.x.stride[1],
                           .out_stride = args.out.stride[0],
                           .out_head_stride = args.out.stride[1],
                           .epsilon = args.epsilon};
  if (shape.rows == 0) return;
  WithCudaFloat(args.x.dtype, [&](auto x) {
    WithCudaFloat(args.weight.dtype, [&](auto weight) {
      WithCudaFloat(args.out.dtype, [&](auto out) {
        using X = decltype(x);
        using W = decltype(weight);
        using Out = decltype(out);
        if (shape.size <= kMaxWarpRow) {
          const auto blocks =
              static_cast<unsigned>((shape.rows + kWarpRows - 1) / kWarpRows);
          LaunchDependent(queue, "RmsNorm", RmsNormWarpKernel<X, W, Out>,
                          {.blocks = blocks, .num_threads = kWarpRows * 32},
                          shape, CudaData<X>(args.x), CudaData<W>(args.weight),
                          CudaData<Out>(args.out));
        } else {
          const auto kernel = shape.size <= kMaxHeldRow
                                  ? RmsNormHeldKernel<X, W, Out>
                                  : RmsNormBlockKernel<X, W, Out>;
          LaunchDependent(queue, "RmsNorm", kernel,
                          {.blocks = static_cast<unsigned>(shape.rows),
                           .num_threads = kRowThreads},
                          shape, CudaData<X>(args.x), CudaData<W>(args.weight),
                          CudaData<Out>(args.out));
        }
      });
    });
  });
}

}  // namespace winnow
