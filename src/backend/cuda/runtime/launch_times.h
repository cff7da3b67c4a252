// LaunchTimes: how long each launch of a queue takes on the device.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_LAUNCH_TIMES_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_LAUNCH_TIMES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// From its making to End, the ends of the queue's launches are marked by
// events; the device begins with them when End is called, so that it never
// waits for the host between two. What is timed holds what an event takes
// itself. Owns the events; used by the queue's thread.
class LaunchTimes {
 public:
  // REQUIRES: the queue records no graph, and times no launches yet.
  explicit LaunchTimes(CudaQueue& queue);
  ~LaunchTimes();
  LaunchTimes(const LaunchTimes&) = delete;
  LaunchTimes& operator=(const LaunchTimes&) = delete;

  // The end of what was launched last.
  void Mark(std::string_view name);
  void End();
  // REQUIRES: what was marked has passed.
  std::vector<LaunchTime> Collect();

 private:
  struct Gate;

  struct Marked {
    std::string name;
    cudaEvent_t end = nullptr;
  };

  CudaQueue& queue_;
  std::shared_ptr<Gate> gate_;
  std::vector<Marked> marks_;  // the first: where the launches begin
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_LAUNCH_TIMES_H_
