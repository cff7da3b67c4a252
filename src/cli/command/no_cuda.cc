// Stands for the CUDA backend in a build without it.
#include "backend/cuda/cuda_backend.h"

namespace winnow {

Result<std::unique_ptr<Backend>> StartCudaBackend(const CudaOptions& options) {
  return MakeError(ErrorCode::kNotFound,
                   "cuda:{}: this build is without CUDA (configure it with "
                   "--preset cuda)",
                   options.device);
}

}  // namespace winnow
