// winnow bench step: prompts and decode through the whole engine.
#ifndef WINNOW_CLI_BENCH_STEP_H_
#define WINNOW_CLI_BENCH_STEP_H_

#include "cli/bench.h"

namespace winnow {

// Runs requests of random tokens and sets their rates beside two roofs: the
// products of the prompt alone, and a plain parallel read of the weights.
Result<int> RunBenchStep(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_BENCH_STEP_H_
