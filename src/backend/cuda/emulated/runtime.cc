#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/cuda/emulated/faults.h"
#include "backend/cuda/emulated/launch.h"
#include "base/check.h"

struct EmulatedGraph {
  std::vector<std::function<void()>> calls;
};
struct EmulatedStream {
  EmulatedGraph* recording = nullptr;
  std::chrono::steady_clock::time_point recorded_at = {};  // as an event
};

namespace winnow::emulated {
namespace {

struct KernelAttributes {
  int max_dynamic_shared = 48 << 10;
  bool takes_wide_clusters = false;
};

// What the runtime of a process keeps, as CUDA's does.
struct Runtime {
  Cluster cluster{1};
  std::unordered_map<Kernel, KernelAttributes> kernels;
  cudaError_t last_error = cudaSuccess;
  bool armed = false;
  int calls_until_fault = -1;  // below 0: none is due
  std::string_view refused;

  cudaError_t Keep(cudaError_t status) {
    if (last_error == cudaSuccess) last_error = status;
    return status;
  }
  // What becomes of a call that a device may refuse.
  cudaError_t Permit(std::string_view call,
                     cudaError_t status = cudaErrorInvalidValue) {
    if (!armed || calls_until_fault < 0 || calls_until_fault-- > 0) {
      return cudaSuccess;
    }
    refused = call;
    return Keep(status);
  }
};
Runtime& TheRuntime() {
  static Runtime runtime;
  return runtime;
}

void Do(cudaStream_t stream, std::function<void()> call) {
  if (stream == nullptr || stream->recording == nullptr) return call();
  stream->recording->calls.push_back(std::move(call));
}

// The limits of compute capability 9.0.
cudaError_t Examine(const LaunchShape& shape, const KernelAttributes& kernel) {
  constexpr int kMaxThreads = 1024, kPortableBlocks = 8, kMostBlocks = 16;
  constexpr unsigned kMaxRows = 65535;
  const int blocks = shape.cluster_blocks;
  if (shape.grid.size() == 0 || shape.grid.y > kMaxRows ||
      shape.grid.z > kMaxRows || shape.num_threads <= 0 ||
      shape.num_threads > kMaxThreads || blocks <= 0 || blocks > kMostBlocks ||
      (blocks > kPortableBlocks && !kernel.takes_wide_clusters) ||
      shape.grid.x % static_cast<unsigned>(blocks) != 0) {
    return cudaErrorInvalidConfiguration;
  }
  CHECK(shape.num_threads % kWarpLanes == 0, "blocks of {} threads",
        shape.num_threads);
  return shape.dynamic_shared_bytes >
                 static_cast<size_t>(kernel.max_dynamic_shared)
             ? cudaErrorInvalidValue
             : cudaSuccess;
}

}  // namespace

void FailCall(int index) {
  TheRuntime().calls_until_fault = index;
  TheRuntime().refused = {};
  TheRuntime().last_error = cudaSuccess;
}
bool SetArmed(bool armed) { return std::exchange(TheRuntime().armed, armed); }
std::string_view RefusedCall() { return TheRuntime().refused; }

cudaError_t SetAttribute(Kernel kernel, Attribute attribute, int value) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaFuncSetAttribute"))
    return fault;
  KernelAttributes& of = TheRuntime().kernels[kernel];
  if (attribute == Attribute::kMaxDynamicShared) {
    if (value < 0 || static_cast<size_t>(value) > kMaxSharedBytes) {
      return TheRuntime().Keep(cudaErrorInvalidValue);
    }
    of.max_dynamic_shared = value;
  }
  if (attribute == Attribute::kNonPortableCluster) {
    of.takes_wide_clusters = value != 0;
  }
  return cudaSuccess;
}

cudaError_t Enqueue(Kernel kernel, const LaunchShape& shape,
                    cudaStream_t stream, std::function<void()> call) {
  if (const cudaError_t fault = TheRuntime().Permit("a launch")) return fault;
  const cudaError_t status = Examine(shape, TheRuntime().kernels[kernel]);
  if (status != cudaSuccess) return TheRuntime().Keep(status);
  Do(stream, [shape, call = std::move(call)] {
    TheRuntime().cluster.Run(shape, call);
  });
  return cudaSuccess;
}

}  // namespace winnow::emulated

using winnow::emulated::Do;
using winnow::emulated::TheRuntime;

const char* cudaGetErrorString(cudaError_t status) {
  return cudaGetErrorName(status);
}
const char* cudaGetErrorName(cudaError_t status) {
  constexpr const char* kNames[] = {
      "cudaSuccess", "cudaErrorInvalidValue", "cudaErrorMemoryAllocation",
      "cudaErrorInvalidConfiguration", "cudaErrorNotReady"};
  return kNames[status];
}
cudaError_t cudaGetLastError() {
  return std::exchange(TheRuntime().last_error, cudaSuccess);
}

namespace {
constexpr int kMultiprocessors[] = {16, 2};
}  // namespace

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaGetDeviceCount"))
    return fault;
  *count = static_cast<int>(std::size(kMultiprocessors));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaGetDeviceProperties"))
    return fault;
  *properties = {.name = "emulated",
                 .major = 9,
                 .minor = 0,
                 .multiProcessorCount = kMultiprocessors[device]};
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }

cudaError_t cudaMalloc(void** data, size_t num_bytes) {
  if (const cudaError_t fault =
          TheRuntime().Permit("an allocation", cudaErrorMemoryAllocation))
    return fault;
  constexpr size_t kAlignment = 256;
  *data = std::aligned_alloc(
      kAlignment, (num_bytes + kAlignment - 1) / kAlignment * kAlignment);
  return *data == nullptr ? TheRuntime().Keep(cudaErrorMemoryAllocation)
                          : cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t num_bytes, unsigned) {
  return cudaMalloc(data, num_bytes);
}
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = size_t{4} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, size_t num_bytes) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaMemset")) return fault;
  std::memset(data, value, num_bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaStreamCreate"))
    return fault;
  *stream = new EmulatedStream();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return TheRuntime().Permit("cudaStreamSynchronize");
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaMemcpyAsync"))
    return fault;
  Do(stream, [=] { std::memmove(to, from, num_bytes); });
  return cudaSuccess;
}

// What was enqueued is done already: an event has nothing to say but when.
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaStreamCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return cudaStreamDestroy(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaEventRecord"))
    return fault;
  event->recorded_at = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return TheRuntime().Permit("cudaEventQuery");
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaEventElapsedTime"))
    return fault;
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded_at -
                                                           begin->recorded_at)
                      .count();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*),
                               void* argument) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaLaunchHostFunc"))
    return fault;
  Do(stream, [=] { function(argument); });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaStreamBeginCapture"))
    return fault;
  CHECK(stream->recording == nullptr);
  stream->recording = new EmulatedGraph();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = std::exchange(stream->recording, nullptr);
  if (const cudaError_t fault = TheRuntime().Permit("cudaStreamEndCapture")) {
    delete std::exchange(*graph, nullptr);
    return fault;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaGraphInstantiate"))
    return fault;
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, EmulatedNode** nodes,
                              size_t* num_nodes) {
  CHECK(nodes == nullptr, "only counted");
  if (const cudaError_t fault = TheRuntime().Permit("cudaGraphGetNodes"))
    return fault;
  *num_nodes = graph->calls.size();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  if (const cudaError_t fault = TheRuntime().Permit("cudaGraphLaunch"))
    return fault;
  for (const auto& call : executable->calls) call();
  return cudaSuccess;
}
