// GatedAct on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_GATED_ACT_H_
#define WINNOW_BACKEND_CPU_ROWS_GATED_ACT_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

void GatedActRows(const GatedActArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_GATED_ACT_H_
