// Select on the CPU: what each row reads.
#ifndef WINNOW_BACKEND_CPU_SELECT_SELECT_H_
#define WINNOW_BACKEND_CPU_SELECT_SELECT_H_

#include "backend/backend.h"
#include "backend/cpu/select/row_choice.h"
#include "backend/cpu/step_rows.h"
#include "base/thread_pool.h"

namespace winnow {

// The truth. `scratch` has an entry a worker of `pool`.
void SelectScalar(const LayerStep& step, const SelectArgs& args,
                  const LayerCache& cache, const View& gate_queries,
                  std::span<SelectScratch> scratch, ThreadPool& pool);

// What it is made of.

// Makes the lists of the rows. `scratch` has an entry a worker of `pool`.
void ChooseRows(const SelectRows& of, std::span<SelectScratch> scratch,
                ThreadPool& pool);
// Adds to args.read_shares, where it is asked for.
void CountReads(const StepRows& rows, const SelectArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SELECT_H_
