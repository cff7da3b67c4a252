// RotaryAngles on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_ROTARY_ANGLES_H_
#define WINNOW_BACKEND_CPU_ROWS_ROTARY_ANGLES_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

void RotaryAngleRows(const LayerStep& step, const RotaryAnglesArgs& args,
                     ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_ROTARY_ANGLES_H_
