// RmsNorm on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_RMS_NORM_H_
#define WINNOW_BACKEND_CPU_ROWS_RMS_NORM_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

// The sum of squares is kept in 16 lanes, added in one fixed order: it
// vectorises without leave to reorder sums.
void RmsNormRows(const RmsNormArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_RMS_NORM_H_
