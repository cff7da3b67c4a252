// Decode rows of an Attend: the split rule (docs/design.md section 5).
#ifndef WINNOW_BACKEND_CPU_ATTEND_ATTEND_UNITS_H_
#define WINNOW_BACKEND_CPU_ATTEND_ATTEND_UNITS_H_

#include "backend/cpu/isa/vector_attend.h"

namespace winnow {

// Reads K and V once for every 16 rows (token, q head) of a KV head's group.
void AttendDecodeRows(const AttendJob& job);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_ATTEND_UNITS_H_
