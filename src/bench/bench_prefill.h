// winnow bench prefill: prompts alone, on any device.
#ifndef WINNOW_BENCH_BENCH_PREFILL_H_
#define WINNOW_BENCH_BENCH_PREFILL_H_

#include "bench/bench.h"

namespace winnow {

// Checks of the flags that need no model.
Status CheckPrefillFlags(const BenchFlags& flags);

// Prints a row for each of the flags' selections, prompts and chunks: see
// bench_prompt.h. REQUIRES: CheckPrefillFlags succeeded.
Result<int> RunBenchPrefill(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_PREFILL_H_
