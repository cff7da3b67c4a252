// An NVIDIA GPU as a device.
#ifndef WINNOW_BACKEND_CUDA_CUDA_BACKEND_H_
#define WINNOW_BACKEND_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "backend/backend.h"
#include "base/result.h"

namespace winnow {

struct CudaOptions {
  int device = 0;
  // For partial results of attention and selection, and for products. A verb
  // that needs more does its rows in runs.
  size_t workspace_bytes = size_t{256} << 20;
};

// A backend on one GPU of compute capability 9.0. One thread at a time may
// call it. Fails with kNotFound where there is no driver at all, with
// kUnsupported where there is no such device, its driver is too old, or
// cuBLASLt is not found; with kResourceExhausted where its
// memory does not hold the workspace.
Result<std::unique_ptr<Backend>> StartCudaBackend(const CudaOptions& options);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_CUDA_BACKEND_H_
