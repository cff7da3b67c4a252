// winnow bench step: prompts and decode through the whole engine.
#ifndef WINNOW_BENCH_BENCH_STEP_H_
#define WINNOW_BENCH_BENCH_STEP_H_

#include "bench/bench.h"

namespace winnow {

// What can be said of its flags before a model is there.
Status CheckStepFlags(const BenchFlags& flags);

// On the CPU, runs requests of random tokens and sets their rates beside the
// roofs of the same round: the products of the prompt alone, the machine's
// plain parallel read, and the same read of the weights. On a GPU, a row for
// each selection, prompt and batch: see bench_device_step.h. Prints medians
// over the rounds. REQUIRES: CheckStepFlags found nothing.
Result<int> RunBenchStep(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_STEP_H_
