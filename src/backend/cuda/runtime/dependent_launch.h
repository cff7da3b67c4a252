// Launches that overlap the end of what is ahead of them.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_DEPENDENT_LAUNCH_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_DEPENDENT_LAUNCH_H_

#include <cuda_runtime.h>

#include <string_view>
#include <type_traits>

#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

struct LaunchGrid {
  dim3 blocks;
  int num_threads = 0;  // of a block
  int shared_bytes = 0;
  int cluster_blocks = 1;  // along x, that run together
};

// Enqueues a kernel whose blocks may begin before what is ahead of it in the
// queue has ended, whatever that is.
// REQUIRES: all its threads call device::WaitForPrior before they touch what
// an earlier op writes or reads.
template <typename... Parameters>
void LaunchDependent(CudaQueue& queue, std::string_view op,
                     void (*kernel)(Parameters...), const LaunchGrid& grid,
                     std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(grid.cluster_blocks);
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(static_cast<unsigned>(grid.num_threads));
  config.dynamicSmemBytes = static_cast<size_t>(grid.shared_bytes);
  config.stream = queue.stream();
  config.attrs = attributes;
  config.numAttrs = grid.cluster_blocks > 1 ? 2 : 1;
  queue.KeepLaunch(cudaLaunchKernelEx(&config, kernel, arguments...), op);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_DEPENDENT_LAUNCH_H_
