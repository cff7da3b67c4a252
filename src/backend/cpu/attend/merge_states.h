// MergeStates on the CPU: attention over disjoint keys, merged.
#ifndef WINNOW_BACKEND_CPU_ATTEND_MERGE_STATES_H_
#define WINNOW_BACKEND_CPU_ATTEND_MERGE_STATES_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

// Bytes: each part once, and the result. Flops: two a number and part.
void MergeRows(const LayerStep& step, const MergeStatesArgs& args,
               ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_MERGE_STATES_H_
