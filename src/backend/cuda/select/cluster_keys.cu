#include <algorithm>

#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/key_clusters.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/cluster_keys.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

constexpr int kBlocksAMultiprocessor = 2;

struct ClusterKeysTask {
  device::StepRows rows;
  device::Pages pages;
  device::Summaries summaries;
  device::ClusterRule rule;
  int selector;
  const int32_t* first_token;  // [requests]
  float* centroids;            // f32 [blocks, num_clusters, k_dim]
};

// A block makes every gridDim.x-th of the segments that are complete now, in
// the order of requests, segments and KV heads: lengths are known here alone.
// Which block makes one changes nothing. Grid [blocks].
template <typename Kv>
__global__ void __launch_bounds__(device::kClusterThreads,
                                  kBlocksAMultiprocessor)
    ClusterKeysKernel(const __grid_constant__ ClusterKeysTask task) {
  extern __shared__ float dynamic[];
  __shared__ device::ClusterMemory memory;
  device::BeginAfterPrior();
  float* const centroids = task.centroids + int64_t{blockIdx.x} *
                                                task.rule.num_clusters *
                                                task.pages.k_dim;
  const auto num_blocks = static_cast<int>(gridDim.x);
  const int num_heads = task.pages.num_kv_heads;
  const int tokens = task.rule.segment_tokens;
  // Items of the requests before, modulo the number of blocks.
  int before = 0;
  for (int request = 0; request < task.rows.num_requests; ++request) {
    if (task.rows.selector[request] != task.selector) continue;
    const int first = task.first_token[request] / tokens;
    const int end =
        (task.rows.first_position[request] + task.rows.num_tokens[request]) /
        tokens;
    const int num_items = max(end - first, 0) * num_heads;
    int item = static_cast<int>(blockIdx.x) - before;
    if (item < 0) item += num_blocks;
    for (; item < num_items; item += num_blocks) {
      device::ClusteredSegment segment = {};
      segment.request = request;
      segment.head = item % num_heads;
      segment.number = first + item / num_heads;
      const int begin = segment.number * tokens;
      segment.first_token =
          min(max(task.rule.sink_tokens, begin), begin + tokens);
      segment.num_keys = begin + tokens - segment.first_token;
      device::KeyClusters<Kv> clusters(task.pages, task.rule, segment, memory,
                                       dynamic, centroids);
      clusters.Make();
      clusters.Keep(task.summaries);
      __syncthreads();  // Or the next one would overwrite what is still read.
    }
    before = (before + num_items) % num_blocks;
  }
}

template <typename Kv>
void Launch(CudaQueue& queue, const ClusterKeysTask& task) {
  const CudaDevice& device = queue.device();
  const int64_t centroid_bytes =
      int64_t{task.rule.num_clusters} * task.pages.k_dim * 4;
  const int64_t fit =
      static_cast<int64_t>(device.workspace_bytes) / centroid_bytes;
  CHECK(fit > 0, "workspace_bytes={} centroids of {} bytes",
        device.workspace_bytes, centroid_bytes);
  const int64_t shared_bytes =
      device::ClusterDynamicBytes(task.pages.k_dim, task.rule.segment_tokens);
  constexpr int64_t kMaxSharedBytes = (227 << 10) - 10240;
  CHECK(shared_bytes <= kMaxSharedBytes, "segment={} k_dim={}: {} bytes",
        task.rule.segment_tokens, task.pages.k_dim, shared_bytes);
  queue.Keep(cudaFuncSetAttribute(ClusterKeysKernel<Kv>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)),
             "ClusterKeys: shared memory");
  const int64_t wanted =
      int64_t{kBlocksAMultiprocessor} * device.num_multiprocessors;
  LaunchDependent(queue, "ClusterKeys", ClusterKeysKernel<Kv>,
                  {.blocks = dim3(static_cast<unsigned>(std::min(fit, wanted))),
                   .num_threads = device::kClusterThreads,
                   .shared_bytes = static_cast<int>(shared_bytes)},
                  task);
}

}  // namespace

void EnqueueClusterKeys(CudaQueue& queue, const LayerStep& step,
                        const ClusterKeysArgs& args, const LayerCache& cache) {
  if (step.num_requests == 0 || step.selector.empty()) return;
  ClusterKeysTask task = {};
  task.rows = DeviceRows(step);
  task.pages = DevicePages(cache);
  task.first_token = args.first_token.As<int32_t>();
  task.centroids = reinterpret_cast<float*>(queue.device().workspace);
  for (size_t i = 0; i < args.selectors.size(); ++i) {
    const LayerSelector& selector = args.selectors[i];
    if (selector.program == nullptr) continue;
    const SelectProgram& program = *selector.program;
    const SummaryRows& rows = program.rows;
    if (rows.kind != SummaryRows::Kind::kClusters) continue;
    CheckProgram(program);
    task.selector = static_cast<int>(i);
    task.summaries = DeviceSummaries(program, selector.summaries, cache);
    task.rule = {.segment_tokens = rows.tokens,
                 .num_clusters = rows.tokens / rows.stride,
                 .sink_tokens = program.forced.sink_tokens,
                 .iterations = program.index.iterations,
                 .centered = program.index.centered,
                 .keeps_values = program.estimate.value > 0,
                 .row_type = FloatTypeOf(rows.dtype),
                 .row_size = DtypeBytes(rows.dtype),
                 .v_stride = cache.format.v_in_k ? cache.format.k_dim
                                                 : cache.format.v_dim};
    WithCudaFloat(cache.format.k, [&](auto element) {
      Launch<decltype(element)>(queue, task);
    });
  }
}

}  // namespace winnow
