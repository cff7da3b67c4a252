// From what Read is asked for to what its kernels take.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_READ_LISTS_H_
#define WINNOW_BACKEND_CUDA_ATTEND_READ_LISTS_H_

#include "backend/backend.h"
#include "backend/cuda/device/attend/read_lists.cuh"

namespace winnow {

// The rows that a Read reads, and their lists. REQUIRES: one source.
device::ReadLists DeviceLists(const LayerStep& step, const ReadArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_READ_LISTS_H_
