#include "backend/cuda/cuda_backend.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>
#include <thread>
#include <utility>

#include "backend/cuda/attend/attend.h"
#include "backend/cuda/attend/merge_states.h"
#include "backend/cuda/fetch/fetch.h"
#include "backend/cuda/linear/cublaslt.h"
#include "backend/cuda/linear/linear.h"
#include "backend/cuda/rows/page_ops.h"
#include "backend/cuda/rows/row_ops.h"
#include "backend/cuda/runtime/cuda_memory.h"
#include "backend/cuda/runtime/cuda_queue.h"
#include "backend/cuda/runtime/launch_times.h"
#include "backend/cuda/runtime/replays.h"
#include "backend/cuda/sample/sample.h"
#include "backend/cuda/select/cluster_keys.h"
#include "backend/cuda/select/select.h"
#include "backend/cuda/select/summarize.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

// The architecture that the kernels are compiled for.
constexpr int kMajor = 9, kMinor = 0;
// Waits of this length are polled for without giving up the processor: a
// decode step is shorter.
constexpr std::chrono::milliseconds kSpinTime(20);
constexpr std::chrono::microseconds kPollTime(200);
constexpr std::chrono::minutes kProfileTimeout(10);

Error Unsupported(int device, std::string_view what) {
  return MakeError(ErrorCode::kUnsupported, "cuda:{}: {}", device, what);
}

// Owns the events, the workspace, the library and the graphs; see
// StartCudaBackend for who may call it.
class CudaBackend final : public Backend {
 public:
  CudaBackend(CudaDevice device, Buffer workspace, Buffer tickets,
              std::unique_ptr<CublasLt> library, int64_t graph_bytes)
      : device_(std::move(device)),
        workspace_(std::move(workspace)),
        tickets_(std::move(tickets)),
        library_(std::move(library)),
        replays_(graph_bytes) {
    device_.workspace = workspace_.data();
    device_.workspace_bytes = workspace_.num_bytes();
    device_.tickets = reinterpret_cast<int32_t*>(tickets_.data());
    device_.num_tickets =
        static_cast<int64_t>(tickets_.num_bytes() / sizeof(int32_t));
  }
  ~CudaBackend() override {
    for (const cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }

  void Describe(const cudaDeviceProp& properties) {
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    attributes_.name = fmt::format("cuda:{}", device_.index);
    attributes_.kernels = fmt::format("{}, {} multiprocessors", properties.name,
                                      properties.multiProcessorCount);
    attributes_.description =
        fmt::format("{}, {:.0f} GiB", attributes_.kernels,
                    static_cast<double>(total_bytes) / (int64_t{1} << 30));
    attributes_.memory_bytes = static_cast<int64_t>(total_bytes);
    attributes_.available_bytes = static_cast<int64_t>(free_bytes);
    attributes_.runs_behind = true;
    attributes_.select_features = kCudaSelectFeatures;
  }

  const BackendAttributes& attributes() const override { return attributes_; }

  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    Use();
    return AllocateCuda(tier, num_bytes, purpose);
  }

  std::unique_ptr<Queue> MakeQueue() override {
    Use();
    return std::make_unique<CudaQueue>(device_);
  }

  Event Record(Queue& queue) override {
    CudaQueue& on = On(queue);
    cudaEvent_t& event = events_[++num_events_ % events_.size()];
    if (event == nullptr) {
      on.Keep(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
              "making an event");
    }
    if (event != nullptr) {
      on.Keep(cudaEventRecord(event, on.stream()), "recording an event");
    }
    return {num_events_};
  }

  // An event that is no longer kept has a later one in its place.
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    CHECK(event.ticket <= num_events_, "ticket={} of {}", event.ticket,
          num_events_);
    Use();
    const auto start = Clock::now();
    const cudaEvent_t waited = events_[event.ticket % events_.size()];
    while (device_.first_error.empty()) {
      const cudaError_t status = cudaEventQuery(waited);
      if (status == cudaSuccess) return Ok{};
      if (status != cudaErrorNotReady) {
        device_.first_error =
            fmt::format("cuda:{}: a step failed: {} ({})", device_.index,
                        cudaGetErrorString(status), cudaGetErrorName(status));
        break;
      }
      const auto waited_for = Clock::now() - start;
      if (waited_for > timeout) {
        return MakeError(ErrorCode::kIo,
                         "cuda:{}: a step did not end within {} ms",
                         device_.index, timeout.count());
      }
      if (waited_for > kSpinTime) std::this_thread::sleep_for(kPollTime);
    }
    return MakeError(ErrorCode::kIo, "{}", device_.first_error);
  }

  void Copy(Queue& queue, const View& from, const View& to) override {
    CHECK(from.dtype == to.dtype && from.contiguous() && to.contiguous() &&
              from.num_elements() == to.num_elements(),
          "from {} to {}", ToString(from), ToString(to));
    if (from.num_elements() == 0) return;
    CudaQueue& on = On(queue);
    on.KeepLaunch(cudaMemcpyAsync(to.data, from.data,
                                  static_cast<size_t>(from.num_bytes()),
                                  cudaMemcpyDefault, on.stream()),
                  "Copy");
  }

  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    replays_.Run(On(queue), key, enqueue);
  }

  Result<std::vector<LaunchTime>> Profile(
      Queue& queue, const std::function<void()>& enqueue) override {
    CudaQueue& on = On(queue);
    LaunchTimes times(on);
    enqueue();
    times.End();
    const Event end = Record(queue);
    RETURN_IF_ERROR(Wait(end, kProfileTimeout));
    std::vector<LaunchTime> collected = times.Collect();
    RETURN_IF_ERROR(Wait(end, kProfileTimeout));  // Whether all could be read.
    return collected;
  }

  void Embed(Queue& queue, const EmbedArgs& args) override {
    EnqueueEmbed(On(queue), args);
  }
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override {
    EnqueueRmsNorm(On(queue), args);
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    EnqueueLinear(On(queue), *library_, args);
  }
  void RotaryAngles(Queue& queue, const LayerStep& step,
                    const RotaryAnglesArgs& args) override {
    EnqueueRotaryAngles(On(queue), step, args);
  }
  void GatedAct(Queue& queue, const GatedActArgs& args) override {
    EnqueueGatedAct(On(queue), args);
  }
  void Append(Queue& queue, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override {
    EnqueueAppend(On(queue), step, inputs, cache);
  }
  void Summarize(Queue& queue, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override {
    EnqueueSummarize(On(queue), step, args, cache);
  }
  void ClusterKeys(Queue& queue, const LayerStep& step,
                   const ClusterKeysArgs& args,
                   const LayerCache& cache) override {
    EnqueueClusterKeys(On(queue), step, args, cache);
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    EnqueueSelect(On(queue), step, args, cache);
  }
  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override {
    EnqueueFetch(On(queue), step, args, cache);
  }
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    EnqueueAttend(On(queue), step, args, cache);
  }
  void MergeStates(Queue& queue, const LayerStep& step,
                   const MergeStatesArgs& args) override {
    EnqueueMergeStates(On(queue), step, args);
  }
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override {
    EnqueueGatherRows(On(queue), args);
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    EnqueueSample(On(queue), args);
  }
  void CopyPagePrefixes(Queue& queue,
                        const CopyPagePrefixesArgs& args) override {
    EnqueueCopyPagePrefixes(On(queue), args);
  }

 private:
  // A thread has a current device of its own.
  void Use() { cudaSetDevice(device_.index); }
  CudaQueue& On(Queue& queue) {
    Use();
    return CudaQueue::Of(queue);
  }

  CudaDevice device_;
  BackendAttributes attributes_;
  Buffer workspace_, tickets_;
  std::unique_ptr<CublasLt> library_;
  Replays replays_;
  std::array<cudaEvent_t, 64> events_ = {};
  uint64_t num_events_ = 0;
};

// The device's properties, where it is one that the kernels run on.
Result<cudaDeviceProp> Examine(int device) {
  int driver_version = 0, num_devices = 0;
  cudaDriverGetVersion(&driver_version);
  if (driver_version == 0) {
    return MakeError(ErrorCode::kNotFound, "cuda:{}: no driver was found",
                     device);
  }
  const cudaError_t status = cudaGetDeviceCount(&num_devices);
  if (status != cudaSuccess) {
    return Unsupported(device, cudaGetErrorString(status));
  }
  if (device < 0 || device >= num_devices) {
    return Unsupported(device,
                       fmt::format("there are {} devices", num_devices));
  }
  cudaDeviceProp properties = {};
  const cudaError_t known = cudaGetDeviceProperties(&properties, device);
  if (known != cudaSuccess) {
    return Unsupported(device, cudaGetErrorString(known));
  }
  if (properties.major != kMajor || properties.minor != kMinor) {
    return Unsupported(
        device, fmt::format("compute capability must be {}.{} (Hopper), {} has "
                            "{}.{}",
                            kMajor, kMinor, properties.name, properties.major,
                            properties.minor));
  }
  return properties;
}

}  // namespace

Result<std::unique_ptr<Backend>> StartCudaBackend(const CudaOptions& options) {
  ASSIGN_OR_RETURN(const cudaDeviceProp properties, Examine(options.device));
  const cudaError_t status = cudaSetDevice(options.device);
  if (status != cudaSuccess) {
    return Unsupported(options.device, cudaGetErrorString(status));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<CublasLt> library, CublasLt::Open());
  ASSIGN_OR_RETURN(Buffer workspace,
                   AllocateCuda(Tier::kDevice, options.workspace_bytes,
                                "workspace of the ops"));
  ASSIGN_OR_RETURN(
      Buffer tickets,
      AllocateCuda(Tier::kDevice, options.ticket_bytes, "tickets of the ops"));
  CudaDevice device;
  device.index = options.device;
  device.num_multiprocessors = properties.multiProcessorCount;
  auto backend = std::make_unique<CudaBackend>(
      std::move(device), std::move(workspace), std::move(tickets),
      std::move(library), options.graph_bytes);
  backend->Describe(properties);
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace winnow
