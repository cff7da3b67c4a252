// From what Attend is asked for to what its kernels take.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_ATTEND_LISTS_H_
#define WINNOW_BACKEND_CUDA_ATTEND_ATTEND_LISTS_H_

#include "backend/backend.h"
#include "backend/cuda/device/attend/attend_lists.cuh"

namespace winnow {

// The rows that an Attend reads, and their lists. REQUIRES: one source.
device::AttendLists DeviceLists(const LayerStep& step, const AttendArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_ATTEND_LISTS_H_
