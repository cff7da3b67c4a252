// Append on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_APPEND_H_
#define WINNOW_BACKEND_CPU_ROWS_APPEND_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

void AppendRows(const LayerStep& step, const TokenInputs& inputs,
                const LayerCache& cache, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_APPEND_H_
