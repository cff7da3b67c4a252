// Sample on the CPU.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_H_
#define WINNOW_BACKEND_CPU_SAMPLE_H_

#include "backend/backend.h"
#include "backend/cpu/thread_pool.h"

namespace winnow {

// One worker a row; each row by SampleRow (sample_row.h), so a token depends on
// its own row alone. Uses 1 MiB of a worker's stack.
void SampleScalar(const SampleArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_H_
