// Generated rows of a Read: the unit rule (docs/design.md section 5).
#ifndef WINNOW_BACKEND_CPU_ATTEND_READ_UNITS_H_
#define WINNOW_BACKEND_CPU_ATTEND_READ_UNITS_H_

#include "backend/cpu/isa/vector_read.h"

namespace winnow {

// Reads K and V once for every 16 rows (token, q head) of a KV head's group.
void ReadGeneratedRows(const ReadJob& job);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_READ_UNITS_H_
