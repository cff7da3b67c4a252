#include <algorithm>

#include "backend/cuda/sample/sample.h"
#include "backend/cuda/sample/sample_row.cuh"
#include "backend/preconditions.h"
#include "base/check.h"

namespace winnow {
namespace {

// SampleArgs on the device.
struct SampleSource {
  const float* logits;  // [rows, vocab]
  int64_t logits_stride;
  int vocab;
  const SamplingRow* rows;    // [rows]
  const int32_t* seen_begin;  // [rows + 1], or null
  const SeenToken* seen;
  const int32_t* bias_begin;  // [rows + 1], or null
  const TokenBias* bias;
  const uint32_t* mask;  // [rows, ceil(vocab / 32)], or null
  int64_t mask_stride;
};

struct SampleTarget {
  int32_t* token_ids;   // [rows]
  float* logprobs;      // [rows]
  int32_t* top_ids;     // [rows, max_top], or null
  float* top_logprobs;  // [rows, max_top]
  int64_t token_ids_stride, logprobs_stride, top_ids_stride,
      top_logprobs_stride;
  int max_top;
};

// How a row is dealt to blocks.
struct SampleShape {
  int num_blocks;    // a row
  int slice_tokens;  // a block; whole words of the mask
};

// A block is a thread a bin; two of them share a multiprocessor where their
// slices leave room. A slice of 4,096 tokens is a few steps for each thread,
// so that more blocks a row would not pay.
constexpr int kSliceTokens = 4096;
constexpr int kMaxPortableBlocks = 8;
constexpr int kMaxBlockBytes = 227 << 10;
constexpr int kMaxSliceTokens =
    (kMaxBlockBytes - 1024 - int{sizeof(device::SampleShared)}) / 4 / 32 * 32;
static_assert(kMaxSliceTokens * device::kMaxSampleBlocks >= kMaxSampledVocab);

SampleShape ShapeOf(int64_t vocab) {
  const auto slice = [vocab](int num_blocks) {
    return static_cast<int>((vocab + num_blocks - 1) / num_blocks + 31) / 32 *
           32;
  };
  int num_blocks = 1;
  while (num_blocks < kMaxPortableBlocks && slice(num_blocks) > kSliceTokens) {
    num_blocks *= 2;
  }
  if (slice(num_blocks) > kMaxSliceTokens)
    num_blocks = device::kMaxSampleBlocks;
  return {num_blocks, slice(num_blocks)};
}

__device__ device::SampledRow RowOf(const SampleSource& source,
                                    const SampleTarget& target, int64_t row) {
  device::SampledRow of_row = {};
  of_row.logits = source.logits + row * source.logits_stride;
  of_row.vocab = source.vocab;
  of_row.rules = source.rows + row;
  if (source.seen_begin != nullptr) {
    of_row.seen = source.seen + source.seen_begin[row];
    of_row.num_seen = source.seen_begin[row + 1] - source.seen_begin[row];
  }
  if (source.bias_begin != nullptr) {
    of_row.bias = source.bias + source.bias_begin[row];
    of_row.num_bias = source.bias_begin[row + 1] - source.bias_begin[row];
  }
  if (source.mask != nullptr) {
    of_row.mask = source.mask + row * source.mask_stride;
  }
  of_row.token_id = target.token_ids + row * target.token_ids_stride;
  of_row.logprob = target.logprobs + row * target.logprobs_stride;
  if (target.top_ids != nullptr) {
    of_row.top = {target.top_ids + row * target.top_ids_stride,
                  target.top_logprobs + row * target.top_logprobs_stride,
                  target.max_top};
  }
  return of_row;
}

// A token of each row of f32 [rows, vocab]; a cluster of blocks a row. Each
// block reads its slice of the logits once, 4 bytes a token, and keeps it in
// shared memory, over which all passes go: two for a greedy row, about ten
// for a drawn one, of some 25 operations a token. The logits stay as they
// came, so that a penalised token's own is at hand. Who has the drawn token
// writes it.
__global__ void __launch_bounds__(device::kSampleThreads, 2)
    SampleKernel(SampleSource source, SampleTarget target, SampleShape shape) {
  __shared__ device::SampleShared shared;
  extern __shared__ float scores[];  // [slice_tokens]
  device::SampleCluster cluster(shared);
  const int first = cluster.rank() * shape.slice_tokens;
  const int size = max(0, min(shape.slice_tokens, source.vocab - first));
  const auto row = static_cast<int64_t>(blockIdx.x) / shape.num_blocks;
  device::SampleRow(cluster, {scores, first, size}, RowOf(source, target, row));
}

SampleSource SourceOf(const SampleArgs& args) {
  SampleSource source = {};
  source.logits = args.logits.As<float>();
  source.logits_stride = args.logits.stride[0];
  source.vocab = static_cast<int>(args.logits.dim(1));
  source.rows = args.rows;
  if (!args.seen_begin.empty()) {
    source.seen_begin = args.seen_begin.As<int32_t>();
    source.seen = args.seen;
  }
  if (!args.bias_begin.empty()) {
    source.bias_begin = args.bias_begin.As<int32_t>();
    source.bias = args.bias;
  }
  if (!args.mask.empty()) {
    source.mask = args.mask.As<uint32_t>();
    source.mask_stride = args.mask.stride[0];
  }
  return source;
}

SampleTarget TargetOf(const SampleArgs& args) {
  SampleTarget target = {};
  target.token_ids = args.token_ids.As<int32_t>();
  target.token_ids_stride = args.token_ids.stride[0];
  target.logprobs = args.logprobs.As<float>();
  target.logprobs_stride = args.logprobs.stride[0];
  if (args.top_ids.empty()) return target;
  target.top_ids = args.top_ids.As<int32_t>();
  target.top_ids_stride = args.top_ids.stride[0];
  target.top_logprobs = args.top_logprobs.As<float>();
  target.top_logprobs_stride = args.top_logprobs.stride[0];
  target.max_top = static_cast<int>(args.top_ids.dim(1));
  return target;
}

}  // namespace

void EnqueueSample(CudaQueue& queue, const SampleArgs& args) {
  if (args.logits.dim(0) == 0) return;
  CheckSample(args);
  const SampleShape shape = ShapeOf(args.logits.dim(1));
  const int head_block_bytes = shape.slice_tokens * int{sizeof(float)};
  queue.Keep(cudaFuncSetAttribute(SampleKernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kMaxSliceTokens * int{sizeof(float)}),
             "sizing Sample");
  queue.Keep(
      cudaFuncSetAttribute(SampleKernel,
                           cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
      "letting Sample have clusters of 16");
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(shape.num_blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(args.logits.dim(0) * shape.num_blocks));
  config.blockDim = dim3(device::kSampleThreads);
  config.dynamicSmemBytes = static_cast<size_t>(head_block_bytes);
  config.stream = queue.stream();
  config.attrs = &cluster;
  config.numAttrs = 1;
  queue.Keep(cudaLaunchKernelEx(&config, SampleKernel, SourceOf(args),
                                TargetOf(args), shape),
             "Sample");
  queue.KeepLaunch("Sample");
}

}  // namespace winnow
