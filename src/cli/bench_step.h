// winnow bench step: prompts and decode through the whole engine.
#ifndef WINNOW_CLI_BENCH_STEP_H_
#define WINNOW_CLI_BENCH_STEP_H_

#include "cli/bench.h"

namespace winnow {

// Runs requests of random tokens and sets their rates beside the roofs of the
// same round: the products of the prompt alone, the machine's plain parallel
// read, and the same read of the weights. Prints medians over the rounds.
Result<int> RunBenchStep(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_BENCH_STEP_H_
