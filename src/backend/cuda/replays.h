// Replays: runs of verbs that were recorded once as CUDA graphs.
#ifndef WINNOW_BACKEND_CUDA_REPLAYS_H_
#define WINNOW_BACKEND_CUDA_REPLAYS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <unordered_map>

#include "backend/cuda/cuda_queue.h"

namespace winnow {

// Owns the graphs, the most recently used first; the oldest go. Used by the
// backend's thread alone.
class Replays {
 public:
  Replays() = default;
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
  };
  // Null where the device refused.
  cudaGraphExec_t Record(CudaQueue& queue,
                         const std::function<void()>& enqueue);

  std::list<Recorded> recorded_;
  std::unordered_map<std::string, std::list<Recorded>::iterator> by_key_;
  int64_t num_recorded_ = 0;  // in all, those that went too
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_REPLAYS_H_
