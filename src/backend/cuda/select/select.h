// Select on CUDA: scores and choices.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// What programs may ask for here, of what not every backend runs.
inline constexpr uint32_t kCudaSelectFeatures =
    static_cast<uint32_t>(SelectFeature::kFixedChoice) |
    static_cast<uint32_t>(SelectFeature::kFloat8Rows) |
    static_cast<uint32_t>(SelectFeature::kGate) |
    static_cast<uint32_t>(SelectFeature::kClusters) |
    static_cast<uint32_t>(SelectFeature::kNextRanks);

// Backend::Select. Bytes: each summary row, once a (row of the step, KV head);
// flops: 2 x rows x k_dim a q head.
void EnqueueSelect(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_H_
