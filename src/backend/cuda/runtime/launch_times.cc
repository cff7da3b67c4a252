#include "backend/cuda/runtime/launch_times.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/check.h"

namespace winnow {

// Holds a stream back until it is opened. A stream takes only so many
// launches ahead, then launching waits for the device: so the gate opens by
// itself before long.
struct LaunchTimes::Gate {
  static constexpr std::chrono::milliseconds kMostHeld{20};

  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;

  void Open() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  // In the runtime's own thread, which owns the pointer that it is given.
  static void WaitAtIt(void* held) {
    const std::unique_ptr<std::shared_ptr<Gate>> gate(
        static_cast<std::shared_ptr<Gate>*>(held));
    std::unique_lock lock((*gate)->mutex);
    (*gate)->changed.wait_for(lock, kMostHeld,
                              [&gate] { return (*gate)->open; });
  }
};

LaunchTimes::LaunchTimes(CudaQueue& queue)
    : queue_(queue), gate_(std::make_shared<Gate>()) {
  auto held = std::make_unique<std::shared_ptr<Gate>>(gate_);
  const cudaError_t status =
      cudaLaunchHostFunc(queue.stream(), Gate::WaitAtIt, held.get());
  queue.Keep(status, "holding a queue back");
  if (status == cudaSuccess) held.release();
  Mark("begin");
  LaunchTimes* const before = queue.SetLaunchTimes(this);
  CHECK(before == nullptr, "launches of this queue are timed already");
}

LaunchTimes::~LaunchTimes() {
  End();
  for (const Marked& mark : marks_) {
    if (mark.end != nullptr) cudaEventDestroy(mark.end);
  }
}

void LaunchTimes::Mark(std::string_view name) {
  Marked mark{.name = std::string(name)};
  queue_.Keep(cudaEventCreateWithFlags(&mark.end, cudaEventDefault),
              "making an event");
  if (mark.end == nullptr) return;
  queue_.Keep(cudaEventRecord(mark.end, queue_.stream()), "recording an event");
  marks_.push_back(std::move(mark));
}

void LaunchTimes::End() {
  queue_.SetLaunchTimes(nullptr);
  gate_->Open();
}

std::vector<LaunchTime> LaunchTimes::Collect() {
  std::vector<LaunchTime> times;
  for (size_t i = 1; i < marks_.size(); ++i) {
    float milliseconds = 0;
    queue_.Keep(
        cudaEventElapsedTime(&milliseconds, marks_[i - 1].end, marks_[i].end),
        "reading an event");
    times.push_back({.name = marks_[i].name, .seconds = milliseconds / 1e3});
  }
  return times;
}

}  // namespace winnow
