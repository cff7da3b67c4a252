// Prefill rows of an Attend: one running state a row, tile after tile.
#ifndef WINNOW_BACKEND_CPU_ATTEND_ATTEND_PROMPT_H_
#define WINNOW_BACKEND_CPU_ATTEND_ATTEND_PROMPT_H_

#include "backend/cpu/isa/vector_attend.h"

namespace winnow {

// 4 * v_dim * (keys seen) flops a row and head with as many for the scores;
// K and V are read once for every 64 rows of a KV head's group.
void AttendPrefillRows(const AttendJob& job);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_ATTEND_PROMPT_H_
