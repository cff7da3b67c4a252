// GatherRows on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_GATHER_ROWS_H_
#define WINNOW_BACKEND_CPU_ROWS_GATHER_ROWS_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

void GatherRowsOf(const GatherRowsArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_GATHER_ROWS_H_
