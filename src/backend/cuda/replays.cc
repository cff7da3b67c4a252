#include "backend/cuda/replays.h"

namespace winnow {
namespace {

// A graph takes about a MiB of device memory; more batch sizes than this are
// seldom in use at a time.
constexpr size_t kMaxGraphs = 256;

}  // namespace

Replays::~Replays() {
  for (const Recorded& entry : recorded_) cudaGraphExecDestroy(entry.graph);
}

cudaGraphExec_t Replays::Record(CudaQueue& queue,
                                const std::function<void()>& enqueue) {
  ++num_recorded_;
  const cudaStream_t stream = queue.stream();
  queue.Keep(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "recording a step");
  // What is recorded does not run yet: there is nothing to time.
  LaunchTimes* const times = queue.SetLaunchTimes(nullptr);
  enqueue();
  queue.SetLaunchTimes(times);
  cudaGraph_t graph = nullptr;
  queue.Keep(cudaStreamEndCapture(stream, &graph), "recording a step");
  if (graph == nullptr) return nullptr;
  cudaGraphExec_t executable = nullptr;
  queue.Keep(cudaGraphInstantiate(&executable, graph, 0),
             "making a step's graph");
  cudaGraphDestroy(graph);
  return executable;
}

void Replays::Run(CudaQueue& queue, std::span<const std::byte> key,
                  const std::function<void()>& enqueue) {
  const std::string name(reinterpret_cast<const char*>(key.data()), key.size());
  const auto known = by_key_.find(name);
  if (known != by_key_.end()) {
    recorded_.splice(recorded_.begin(), recorded_, known->second);
  } else {
    const cudaGraphExec_t graph = Record(queue, enqueue);
    if (graph == nullptr) return;  // The queue keeps the error.
    recorded_.push_front({name, graph});
    by_key_[name] = recorded_.begin();
    if (recorded_.size() > kMaxGraphs) {
      // What may still run is kept alive by the driver until it ends.
      cudaGraphExecDestroy(recorded_.back().graph);
      by_key_.erase(recorded_.back().key);
      recorded_.pop_back();
    }
  }
  queue.KeepLaunch(cudaGraphLaunch(recorded_.front().graph, queue.stream()),
                   "launching a step's graph");
}

}  // namespace winnow
