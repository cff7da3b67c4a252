#include "backend/cuda/runtime/replays.h"

#include <utility>

namespace winnow {

Replays::~Replays() {
  for (const Recorded& entry : recorded_) cudaGraphExecDestroy(entry.graph);
}

Replays::Recorded Replays::Record(CudaQueue& queue,
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
  if (graph == nullptr) return {};
  Recorded recorded;
  size_t num_launches = 0;
  queue.Keep(cudaGraphGetNodes(graph, nullptr, &num_launches),
             "counting a step's launches");
  recorded.num_bytes = static_cast<int64_t>(num_launches) * kGraphLaunchBytes;
  queue.Keep(cudaGraphInstantiate(&recorded.graph, graph, 0),
             "making a step's graph");
  cudaGraphDestroy(graph);
  return recorded;
}

void Replays::Keep(Recorded recorded) {
  num_bytes_ += recorded.num_bytes;
  // What may still run is kept alive by the driver until it ends.
  while (num_bytes_ > max_bytes_ && !recorded_.empty()) {
    const Recorded& oldest = recorded_.back();
    num_bytes_ -= oldest.num_bytes;
    cudaGraphExecDestroy(oldest.graph);
    by_key_.erase(oldest.key);
    recorded_.pop_back();
  }
  recorded_.push_front(std::move(recorded));
  by_key_[recorded_.front().key] = recorded_.begin();
}

void Replays::Run(CudaQueue& queue, std::span<const std::byte> key,
                  const std::function<void()>& enqueue) {
  const std::string name(reinterpret_cast<const char*>(key.data()), key.size());
  const auto known = by_key_.find(name);
  if (known != by_key_.end()) {
    recorded_.splice(recorded_.begin(), recorded_, known->second);
  } else {
    Recorded recorded = Record(queue, enqueue);
    if (recorded.graph == nullptr) return;  // The queue keeps the error.
    recorded.key = name;
    Keep(std::move(recorded));
  }
  queue.KeepLaunch(cudaGraphLaunch(recorded_.front().graph, queue.stream()),
                   "launching a step's graph");
}

}  // namespace winnow
