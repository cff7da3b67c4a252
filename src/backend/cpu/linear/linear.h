// Linear on the CPU: the truth, and what every way to compute it shares.
#ifndef WINNOW_BACKEND_CPU_LINEAR_LINEAR_H_
#define WINNOW_BACKEND_CPU_LINEAR_LINEAR_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

// The truth: each output is one sum over ascending inputs in float32.
void LinearScalar(const LinearArgs& args, ThreadPool& pool);

// The truth of one output column of `part`, for all rows.
void LinearColumn(const LinearArgs& args, const LinearPart& part,
                  int64_t column);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_LINEAR_H_
