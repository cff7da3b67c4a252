// From the arguments of ops to what kernels take.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_STEP_VIEWS_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_STEP_VIEWS_H_

#include "backend/contract/layer_cache.h"
#include "backend/contract/slot_table.h"
#include "backend/contract/step.h"
#include "backend/cuda/device/rows/step_rows.cuh"

namespace winnow {

// REQUIRES: no draft trees, which come with speculation.
device::StepRows DeviceRows(const LayerStep& step);

// REQUIRES: pages of kPageTokens, K and V of one unquantised dtype.
device::Pages DevicePages(const LayerCache& cache,
                          const SlotTable* slots = nullptr);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_STEP_VIEWS_H_
