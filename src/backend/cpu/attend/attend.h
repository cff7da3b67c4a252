// Attend on the CPU: attention over pages.
#ifndef WINNOW_BACKEND_CPU_ATTEND_ATTEND_H_
#define WINNOW_BACKEND_CPU_ATTEND_ATTEND_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

// The truth, a row and head at a time. A state is (maximum, sum, weighted sum
// of values); tokens enter in ascending order.
//  * prefill row: one running state takes in tile after tile of 128 keys;
//  * decode row: each unit of four picks is a state of its own; units merge
//    in order into their group's state, groups in order into the row's.
// All pages are the picks of every page.
void AttendScalar(const LayerStep& step, const AttendArgs& args,
                  const LayerCache& cache, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_ATTEND_H_
