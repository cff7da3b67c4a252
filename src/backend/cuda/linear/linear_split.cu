#include <algorithm>

#include "backend/cuda/device/linear/split_add.cuh"
#include "backend/cuda/device/linear/split_load.cuh"
#include "backend/cuda/device/linear/split_multiply.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/linear/linear.h"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/tensor_map.h"

namespace winnow {
namespace {

using device::kSplitBlocks;
using device::kSplitOutputs;
using device::kSplitRows;
using device::kSplitThreads;
using device::SplitChunks;
using device::SplitMemory;
using device::SplitTask;
using device::TileRun;
using Element = device::SplitElement;

// The least rows: fewer are LinearFewRows'.
constexpr int kMinRows = 17;

// A cluster takes a run of tiles of 64 outputs of all rows, each of its blocks
// a quarter of the inputs; each block then adds up a quarter of the rows. So
// the weights come once, and x, from L2, once a pass: a fourth of the weights'
// bytes where a pass has all its tiles. The order of a row's sums depends on
// `inputs` alone. Flops: 2 x 64 x inputs x outputs.
// (What was tried, and what lost:
// bench/results/2026-11-24-bd3a9b5-h200-step.json. Of an H200's 132
// multiprocessors 120 have a place in clusters of four.)
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
  constexpr int kLoadWarp = kAddWarp + device::kSplitAddWarps;
  if (warp == kLoadWarp && threadIdx.x % 32 == 0) {
    device::SplitLoad<Out, kGated>(task, memory).Run(run, chunks);
  } else {
    device::WaitForPrior();
  }
  // The others' barriers are set up. A block ends when all have sent what it
  // adds up: nobody writes to its memory then.
  device::WaitForCluster();
  if (warp < kAddWarp) {
    device::SplitMultiply<kGated>(memory, rank, warp / 4).Run(run, chunks);
  } else if (warp < kLoadWarp) {
    device::SplitAdd<Out, kGated>(task, memory, rank).Run(run, memory);
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
  task.weight = MapMatrix(queue, part.weight.codes);
  task.x = MapMatrix(queue, args.x);
  task.bias = CudaData<Element>(part.bias);
  task.residual = CudaData<float>(args.residual);
  task.out = CudaData<Out>(out);
  task.residual_stride = args.residual.empty() ? 0 : args.residual.stride[0];
  task.out_stride = out.stride[0];
  task.rows = static_cast<int>(args.x.dim(0));
  task.inputs = static_cast<int>(args.x.dim(1));
  task.outputs = static_cast<int>(part.weight.rows);
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
         args.x.dim(1) % 8 == 0 && aligned(args.x) &&
         aligned(part.weight.codes) && part.weight.rows > 0;
}

bool LinearSplitGates(const LinearArgs& args) {
  if (!args.gated_act) return false;
  const GatedParts parts = GatedPartsOf(args);
  const LinearPart &gate = parts.gate, &up = parts.up;
  return LinearSplitTakes(args, gate) && LinearSplitTakes(args, up) &&
         gate.weight.rows == up.weight.rows;
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
  const GatedParts parts = GatedPartsOf(args);
  const LinearPart &gate = parts.gate, &up = parts.up;
  SplitTask<Element> task =
      MakeTask<Element>(queue, args, gate, args.gated_act->out);
  task.up = MapMatrix(queue, up.weight.codes);
  task.up_bias = CudaData<Element>(up.bias);
  task.activation = static_cast<device::Activation>(args.gated_act->activation);
  Launch<Element, true>(queue, task);
}

}  // namespace winnow
