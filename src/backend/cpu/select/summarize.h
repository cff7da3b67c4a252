// Summarize on the CPU: what selectors keep of the keys.
#ifndef WINNOW_BACKEND_CPU_SELECT_SUMMARIZE_H_
#define WINNOW_BACKEND_CPU_SELECT_SUMMARIZE_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

// Computes the summary rows whose last token is new to them, each from its
// keys in ascending order with float32 sums, rounded once.
void SummarizeRows(const LayerStep& step, const SummarizeArgs& args,
                   const LayerCache& cache, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SUMMARIZE_H_
