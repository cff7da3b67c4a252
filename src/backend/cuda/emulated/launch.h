// Launches of kernels, as scripts and launchers write them.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_LAUNCH_H_
#define WINNOW_BACKEND_CUDA_EMULATED_LAUNCH_H_

#include <functional>
#include <type_traits>
#include <utility>

#include "backend/cuda/emulated/cluster.h"
#include "backend/cuda/emulated/include/cuda_runtime.h"

namespace winnow::emulated {

using Kernel = const void*;

// What cudaFuncSetAttribute has said of a kernel.
enum class Attribute { kMaxDynamicShared, kCarveout, kNonPortableCluster };
cudaError_t SetAttribute(Kernel kernel, Attribute attribute, int value);

// Does or records a launch, unless the device would refuse it.
cudaError_t Enqueue(Kernel kernel, const LaunchShape& shape,
                    cudaStream_t stream, std::function<void()> call);

// kernel<<<grid, threads, shared_bytes, stream>>>(args...), once rewrite.py has
// made of it Configure(kernel, grid, threads, shared_bytes, stream)(args...).
template <typename... Parameters>
struct Configured {
  void (*kernel)(Parameters...);
  LaunchShape shape;
  cudaStream_t stream;

  // The parameters are copied, as a launch does; each thread has its own.
  cudaError_t operator()(Parameters... parameters) const {
    return Enqueue(reinterpret_cast<Kernel>(kernel), shape, stream,
                   [kernel = kernel, parameters...] { kernel(parameters...); });
  }
};
template <typename... Parameters>
Configured<Parameters...> Configure(void (*kernel)(Parameters...), dim3 grid,
                                    dim3 threads, size_t shared_bytes,
                                    cudaStream_t stream) {
  LaunchShape shape = {.grid = {grid.x, grid.y, grid.z},
                       .num_threads = static_cast<int>(threads.x),
                       .dynamic_shared_bytes = shared_bytes};
  if (threads.y != 1 || threads.z != 1) shape.num_threads = -1;
  return {kernel, shape, stream};
}

// T name; as `__shared__`, on that line of a kernel.
template <typename T>
T& DeclaredShared(int line) {
  return *reinterpret_cast<T*>(Running().DeclaredShared(line, sizeof(T)));
}
// extern __shared__ T name[];
template <typename T>
T* DynamicShared() {
  return reinterpret_cast<T*>(Running().DynamicShared());
}

}  // namespace winnow::emulated

inline constexpr auto cudaFuncAttributeMaxDynamicSharedMemorySize =
    winnow::emulated::Attribute::kMaxDynamicShared;
inline constexpr auto cudaFuncAttributePreferredSharedMemoryCarveout =
    winnow::emulated::Attribute::kCarveout;
inline constexpr auto cudaFuncAttributeNonPortableClusterSizeAllowed =
    winnow::emulated::Attribute::kNonPortableCluster;
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;
template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...),
                                 winnow::emulated::Attribute attribute,
                                 int value) {
  return winnow::emulated::SetAttribute(
      reinterpret_cast<winnow::emulated::Kernel>(kernel), attribute, value);
}

enum cudaLaunchAttributeID {
  cudaLaunchAttributeClusterDimension,
  cudaLaunchAttributeProgrammaticStreamSerialization,
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    dim3 clusterDim;
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
template <typename... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               std::type_identity_t<Parameters>... parameters) {
  auto configured =
      winnow::emulated::Configure(kernel, config->gridDim, config->blockDim,
                                  config->dynamicSmemBytes, config->stream);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id != cudaLaunchAttributeClusterDimension) continue;
    configured.shape.cluster_blocks =
        static_cast<int>(attribute.val.clusterDim.x);
  }
  return configured(std::move(parameters)...);
}

#endif  // WINNOW_BACKEND_CUDA_EMULATED_LAUNCH_H_
