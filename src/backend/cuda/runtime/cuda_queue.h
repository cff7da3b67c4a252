// CudaQueue: a stream, and the first thing that went wrong on its device.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_CUDA_QUEUE_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_CUDA_QUEUE_H_

#include <cuda_runtime.h>

#include <string>
#include <string_view>
#include <utility>

#include "backend/backend.h"

namespace winnow {

// What a device's ops share, owned by the backend: memory for partial
// results, at one address for ever so that a captured graph stays true, and
// the first failure.
struct CudaDevice {
  int index = 0;
  int num_multiprocessors = 0;
  int num_split_clusters = 0;      // of LinearSplit, at once; 0: not asked yet
  std::byte* workspace = nullptr;  // what stands in it means nothing between
                                   // ops of a queue
  size_t workspace_bytes = 0;
  int32_t* tickets = nullptr;  // [num_tickets]: zero between ops of a queue
  int64_t num_tickets = 0;
  std::string first_error;  // empty: none so far
};

class LaunchTimes;

// Owns a stream. Ops never fail: what cannot be launched is kept as the
// device's first error, and Wait returns it.
class CudaQueue final : public Queue {
 public:
  // REQUIRES: device outlives the queue.
  explicit CudaQueue(CudaDevice& device);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  static CudaQueue& Of(Queue& queue) { return static_cast<CudaQueue&>(queue); }

  cudaStream_t stream() const { return stream_; }
  CudaDevice& device() const { return device_; }

  // Keeps `status`, where it is the first failure, under the name of what was
  // tried: an op and its shape.
  void Keep(cudaError_t status, std::string_view what);
  // The same of a launch, whose end is marked where launches are timed.
  void KeepLaunch(cudaError_t status, std::string_view what);
  // Keeps what the launches since the last call left behind.
  void KeepLaunch(std::string_view what) {
    KeepLaunch(cudaGetLastError(), what);
  }

  // Where ends of launches are marked from now on; null: nowhere. Returns
  // where they were.
  LaunchTimes* SetLaunchTimes(LaunchTimes* times) {
    return std::exchange(times_, times);
  }

 private:
  CudaDevice& device_;
  LaunchTimes* times_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_CUDA_QUEUE_H_
