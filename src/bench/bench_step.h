// winnow bench step: prompts and decode steps through the whole engine.
#ifndef WINNOW_BENCH_BENCH_STEP_H_
#define WINNOW_BENCH_BENCH_STEP_H_

#include "bench/bench.h"

namespace winnow {

// Checks of the flags that need no model.
Status CheckStepFlags(const BenchFlags& flags);

// On the CPU, runs requests of random tokens and compares their rates with
// roofs of the same round. These are the prompt's products alone, the machine's
// plain parallel read, and the same read of the weights. On a GPU, prints a row
// for each selection, prompt and batch: see bench_device_step.h. Prints medians
// over the rounds. REQUIRES: CheckStepFlags succeeded.
Result<int> RunBenchStep(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_STEP_H_
