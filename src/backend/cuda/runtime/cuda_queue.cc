#include "backend/cuda/runtime/cuda_queue.h"

#include <fmt/format.h>

#include "backend/cuda/runtime/launch_times.h"

namespace winnow {

CudaQueue::CudaQueue(CudaDevice& device) : device_(device) {
  Keep(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
       "making a stream");
}

CudaQueue::~CudaQueue() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void CudaQueue::Keep(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess || !device_.first_error.empty()) return;
  device_.first_error =
      fmt::format("cuda:{}: {}: {} ({})", device_.index, what,
                  cudaGetErrorString(status), cudaGetErrorName(status));
}

void CudaQueue::KeepLaunch(cudaError_t status, std::string_view what) {
  Keep(status, what);
  if (times_ != nullptr) times_->Mark(what);
}

}  // namespace winnow
