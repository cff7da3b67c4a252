// Memory of a CUDA device, and host memory that it reaches.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_CUDA_MEMORY_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_CUDA_MEMORY_H_

#include <string_view>

#include "base/result.h"
#include "tensor/buffer.h"

namespace winnow {

// kDevice: the device's own memory, zeroed. kHost: pinned, mapped, zeroed.
// Fails with kResourceExhausted, naming `purpose`, what was asked for and what
// was free. REQUIRES: the calling thread's current device is the one meant.
Result<Buffer> AllocateCuda(Tier tier, size_t num_bytes,
                            std::string_view purpose);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_CUDA_MEMORY_H_
