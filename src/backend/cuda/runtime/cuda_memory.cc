#include "backend/cuda/runtime/cuda_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

namespace winnow {
namespace {

Error NoMemory(std::string_view purpose, size_t num_bytes, size_t free_bytes,
               cudaError_t status) {
  return MakeError(ErrorCode::kResourceExhausted,
                   "{}: {} bytes of device memory asked for, {} free ({})",
                   purpose, num_bytes, free_bytes, cudaGetErrorString(status));
}

}  // namespace

Result<Buffer> AllocateCuda(Tier tier, size_t num_bytes,
                            std::string_view purpose) {
  CHECK(tier != Tier::kDisk, "disk is not a backend's to give");
  void* data = nullptr;
  // One byte at least: an empty buffer still has an address.
  const size_t asked = std::max<size_t>(num_bytes, 1);
  if (tier == Tier::kHost) {
    const cudaError_t status = cudaHostAlloc(&data, asked, cudaHostAllocMapped);
    if (status != cudaSuccess) {
      cudaGetLastError();  // Or the next launch would report it.
      return MakeError(ErrorCode::kResourceExhausted,
                       "{}: {} bytes of pinned host memory asked for ({})",
                       purpose, num_bytes, cudaGetErrorString(status));
    }
    std::memset(data, 0, asked);
    return Buffer(tier, static_cast<std::byte*>(data), num_bytes,
                  [](std::byte* from, size_t) { cudaFreeHost(from); });
  }
  size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  cudaError_t status = cudaMalloc(&data, asked);
  if (status == cudaSuccess) {
    // The queues' streams do not wait for the default one.
    status = cudaMemset(data, 0, asked);
    if (status == cudaSuccess) status = cudaStreamSynchronize(nullptr);
    if (status != cudaSuccess) cudaFree(data);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    return NoMemory(purpose, num_bytes, free_bytes, status);
  }
  return Buffer(tier, static_cast<std::byte*>(data), num_bytes,
                [](std::byte* from, size_t) { cudaFree(from); });
}

}  // namespace winnow
