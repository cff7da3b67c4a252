// Replays: runs of ops that were recorded once as CUDA graphs.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_REPLAYS_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_REPLAYS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <unordered_map>

#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Device memory that the driver takes for a launch of a graph, at most
// (tests/cuda/graph_memory_test.cc).
inline constexpr int64_t kGraphLaunchBytes = 4096;

// Owns the graphs, the most recently used first; the oldest go where all would
// take more than `max_bytes`. One may be larger. Used by the backend's thread
// alone.
class Replays {
 public:
  explicit Replays(int64_t max_bytes) : max_bytes_(max_bytes) {}
  ~Replays();
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  // Backend::Replay.
  void Run(CudaQueue& queue, std::span<const std::byte> key,
           const std::function<void()>& enqueue);

  int64_t num_recorded() const { return num_recorded_; }

 private:
  struct Recorded {
    std::string key;
    cudaGraphExec_t graph = nullptr;
    int64_t num_bytes = 0;
  };
  // Without a graph where the device refused.
  Recorded Record(CudaQueue& queue, const std::function<void()>& enqueue);
  void Keep(Recorded recorded);

  const int64_t max_bytes_;
  int64_t num_bytes_ = 0;  // of all that are kept
  std::list<Recorded> recorded_;
  std::unordered_map<std::string, std::list<Recorded>::iterator> by_key_;
  int64_t num_recorded_ = 0;  // in all, those that went too
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_REPLAYS_H_
