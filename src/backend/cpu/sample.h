// Sample on the CPU.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_H_
#define WINNOW_BACKEND_CPU_SAMPLE_H_

#include "backend/backend.h"
#include "backend/cpu/thread_pool.h"

namespace winnow {

void SampleScalar(const SampleArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_H_
