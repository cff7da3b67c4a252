#include "backend/cuda/device/rows/row_sum.cuh"
#include "backend/cuda/device/runtime/async_copy.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/fetch/pieces.h"
#include "backend/cuda/rows/row_ops.h"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"

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

// Rows whose numbers the threads can hold: every kRowThreads-th is a thread's.
constexpr int kHeldNumbers = 16;  // a thread
constexpr int64_t kMaxHeldRow = kHeldNumbers * kRowThreads;

template <typename W>
__device__ void LoadWeights(const W* weight, int size,
                            float (&weights)[kHeldNumbers]) {
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kRowThreads;
    weights[k] = i < size ? device::ToFloat(weight[i]) : 0.0f;
  }
}

// Normalizes the row at `x`, in global or in shared memory: reads it once, and
// gives the same bits as NormalizeRow.
template <typename X, typename Out>
__device__ void NormalizeHeld(const X* x, const float (&weights)[kHeldNumbers],
                              int size, float epsilon, float* of_warps,
                              Out* out) {
  float values[kHeldNumbers];
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kRowThreads;
    values[k] = i < size ? device::ToFloat(x[i]) : 0.0f;
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) sum = fmaf(values[k], values[k], sum);
  const float mean = device::BlockSum(sum, of_warps) / static_cast<float>(size);
  const float factor = 1.0f / sqrtf(mean + epsilon);
#pragma unroll
  for (int k = 0; k < kHeldNumbers; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kRowThreads;
    if (i >= size) break;
    out[i] = device::FromFloat<Out>(values[k] * factor * weights[k]);
  }
}

// A block a row; the weights are there before the row is.
template <typename X, typename W, typename Out>
__global__ void __launch_bounds__(kRowThreads)
    RmsNormHeldKernel(NormShape shape, const X* x, const W* weight, Out* out) {
  __shared__ float of_warps[32];
  const int64_t row = blockIdx.x;
  const int size = static_cast<int>(shape.size);
  float weights[kHeldNumbers];
  LoadWeights(weight, size, weights);
  device::BeginAfterPrior();
  NormalizeHeld(x + shape.XOffset(row), weights, size, shape.epsilon, of_warps,
                out + shape.OutOffset(row));
}

// The same for more rows than blocks that run at a time: a block has every
// gridDim.x-th, and while it normalizes one the next two are on their way. Two
// blocks of rows of 4,096 float32 have 64 KB under way on a multiprocessor.
constexpr int kStagedBlocksAnSm = 2;
constexpr int kStages = 3;  // rows in shared memory
template <typename X, typename W, typename Out>
__global__ void __launch_bounds__(kRowThreads, kStagedBlocksAnSm)
    RmsNormStagedKernel(NormShape shape, const X* x, const W* weight,
                        Out* out) {
  extern __shared__ uint4 stages[];  // [kStages, a row]
  __shared__ float of_warps[32];
  const int size = static_cast<int>(shape.size);
  const int row_pieces = size / device::kPieceNumbers<X>;
  float weights[kHeldNumbers];
  LoadWeights(weight, size, weights);
  device::BeginAfterPrior();
  // A row that is not there counts all the same.
  const auto load = [&](int64_t row, int stage) {
    const X* from = x + shape.XOffset(row);
    for (int i = threadIdx.x; row < shape.rows && i < row_pieces;
         i += kRowThreads) {
      device::CopyAsync16(
          device::SharedAddress(stages + stage * row_pieces + i),
          from + i * device::kPieceNumbers<X>, device::kPieceBytes);
    }
    device::CommitCopies();
  };
  const int64_t step = gridDim.x;
  for (int i = 0; i + 1 < kStages; ++i) load(blockIdx.x + i * step, i);
  int stage = 0;
  for (int64_t row = blockIdx.x; row < shape.rows; row += step) {
    device::WaitForCopies<kStages - 2>();
    // All have read the row before this one, and its place is free.
    __syncthreads();
    const int free_stage = stage == 0 ? kStages - 1 : stage - 1;
    load(row + (kStages - 1) * step, free_stage);
    NormalizeHeld(reinterpret_cast<const X*>(stages + stage * row_pieces),
                  weights, size, shape.epsilon, of_warps,
                  out + shape.OutOffset(row));
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

// REQUIRES: rows of whole pieces, of at most kMaxHeldRow numbers.
template <typename X, typename W, typename Out>
void LaunchStaged(CudaQueue& queue, const NormShape& shape,
                  const RmsNormArgs& args) {
  const auto kernel = RmsNormStagedKernel<X, W, Out>;
  constexpr int kMostBytes = kStages * int{kMaxHeldRow} * int{sizeof(X)};
  queue.Keep(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMostBytes),
      "RmsNorm: shared memory for rows");
  LaunchDependent(
      queue, "RmsNorm", kernel,
      {.blocks = static_cast<unsigned>(kStagedBlocksAnSm *
                                       queue.device().num_multiprocessors),
       .num_threads = kRowThreads,
       .shared_bytes = kStages * static_cast<int>(shape.size * sizeof(X))},
      shape, CudaData<X>(args.x), CudaData<W>(args.weight),
      CudaData<Out>(args.out));
}

template <typename X, typename W, typename Out>
void Launch(CudaQueue& queue, const NormShape& shape, const RmsNormArgs& args) {
  if (shape.size <= kMaxWarpRow) {
    const auto blocks =
        static_cast<unsigned>((shape.rows + kWarpRows - 1) / kWarpRows);
    return LaunchDependent(queue, "RmsNorm", RmsNormWarpKernel<X, W, Out>,
                           {.blocks = blocks, .num_threads = kWarpRows * 32},
                           shape, CudaData<X>(args.x), CudaData<W>(args.weight),
                           CudaData<Out>(args.out));
  }
  const bool holds = shape.size <= kMaxHeldRow;
  if (holds && args.x.rank == 2 &&
      shape.rows > kStagedBlocksAnSm * queue.device().num_multiprocessors &&
      HasPieces<X, device::kPieceNumbers<X>>(args.x)) {
    return LaunchStaged<X, W, Out>(queue, shape, args);
  }
  LaunchDependent(
      queue, "RmsNorm",
      holds ? RmsNormHeldKernel<X, W, Out> : RmsNormBlockKernel<X, W, Out>,
      {.blocks = static_cast<unsigned>(shape.rows), .num_threads = kRowThreads},
      shape, CudaData<X>(args.x), CudaData<W>(args.weight),
      CudaData<Out>(args.out));
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
  // Bytes: x and out once, the weights once a block. 2,048 rows of 4,096
  // float32 to bfloat16 are 50 MB: 10.5 us at 4.8 TB/s. It takes 17.4 (`bench
  // ops`, an H200), in place of 20.6 with a block a row.
  WithCudaFloat(args.x.dtype, [&](auto x) {
    WithCudaFloat(args.weight.dtype, [&](auto weight) {
      WithCudaFloat(args.out.dtype, [&](auto out) {
        Launch<decltype(x), decltype(weight), decltype(out)>(queue, shape,
                                                             args);
      });
    });
  });
}

}  // namespace winnow
