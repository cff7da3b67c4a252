// Linear on the CPU.
#ifndef WINNOW_BACKEND_CPU_LINEAR_H_
#define WINNOW_BACKEND_CPU_LINEAR_H_

#include "backend/backend.h"
#include "backend/cpu/thread_pool.h"

namespace winnow {

// The truth: each output is one sum over ascending inputs in float32.
void LinearScalar(const LinearArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_H_
