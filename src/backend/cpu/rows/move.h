// Move on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_MOVE_H_
#define WINNOW_BACKEND_CPU_ROWS_MOVE_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

void MovePages(const MoveArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_MOVE_H_
