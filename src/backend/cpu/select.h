// Select on the CPU: what each row reads.
#ifndef WINNOW_BACKEND_CPU_SELECT_H_
#define WINNOW_BACKEND_CPU_SELECT_H_

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/row_scores.h"
#include "backend/cpu/thread_pool.h"

namespace winnow {

// What one worker chooses with: grows to the longest context.
struct SelectScratch {
  RowScores scores;
  std::vector<int64_t> candidates;  // partitions
  std::vector<uint32_t> tokens;     // [pages]: chosen, a bit a token
};

// The truth. `scratch` has an entry a worker of `pool`.
void SelectScalar(const LayerStep& step, const SelectArgs& args,
                  const LayerCache& cache, std::span<SelectScratch> scratch,
                  ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_H_
