// From selectors as the host has them to what kernels take.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_VIEWS_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_VIEWS_H_

#include <cuda_runtime.h>

#include "backend/backend.h"
#include "backend/cuda/device/select/gate_rows.cuh"
#include "backend/cuda/device/select/select_list.cuh"

namespace winnow {

device::Summaries DeviceSummaries(const SelectProgram& program,
                                  const SummaryTable& table,
                                  const LayerCache& cache);

device::Selector DeviceSelector(const LayerSelector& selector,
                                const LayerCache& cache);

// Of weights [kv_heads, inputs, k_dim] and their norm.
device::GateSide DeviceGate(const View& weights, const View& norm);

// What Select writes.
device::Lists DeviceChosenLists(const PickLists& picks);

// The level's rows and their element type: keys have that of the cache.
const SummaryRows& LevelRows(const SelectProgram& program, int level);
Dtype LevelDtype(const SelectProgram& program, int level,
                 const LayerCache& cache);

// Lists of a row that are chosen, and not copied from another.
int NumChoices(const SelectProgram& program, int num_q_heads,
               const LayerCache& cache);

// Slots of a level that a row of at most `max_context` tokens may see.
int64_t MaxSlots(const SelectProgram& program, int level, int64_t max_context);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_VIEWS_H_
