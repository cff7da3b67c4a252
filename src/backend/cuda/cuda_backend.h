// An NVIDIA GPU as a device.
#ifndef WINNOW_BACKEND_CUDA_CUDA_BACKEND_H_
#define WINNOW_BACKEND_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "backend/backend.h"
#include "base/result.h"

namespace winnow {

struct CudaOptions {
  int device = 0;
  // For partial results of attention and selection, and for products. An op
  // that needs more does its rows in runs.
  size_t workspace_bytes = size_t{256} << 20;
  // Of a row with a million tokens of context and 128 q heads, 30 times.
  size_t ticket_bytes = size_t{4} << 20;
  // What the driver may take, as steps are recorded, for their graphs: the
  // oldest go.
  int64_t graph_bytes = int64_t{256} << 20;

  // Taken before anyone allocates.
  int64_t start_bytes() const {
    return static_cast<int64_t>(workspace_bytes + ticket_bytes);
  }
};

// A backend on one GPU of compute capability 9.0. One thread at a time may
// call it. Fails with kNotFound where there is no driver at all, with
// kUnsupported where there is no such device, its driver is too old, or
// cuBLASLt is not found; with kResourceExhausted where its
// memory does not hold the workspace.
Result<std::unique_ptr<Backend>> StartCudaBackend(const CudaOptions& options);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_CUDA_BACKEND_H_
