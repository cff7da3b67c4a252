// winnow bench prefill: prompts alone, on any device.
#ifndef WINNOW_BENCH_BENCH_PREFILL_H_
#define WINNOW_BENCH_BENCH_PREFILL_H_

#include "bench/bench.h"

namespace winnow {

// What can be said of its flags before a model is there.
Status CheckPrefillFlags(const BenchFlags& flags);

// A row for each of the flags' selections, prompts and chunks: see
// bench_prompt.h. REQUIRES: CheckPrefillFlags found nothing.
Result<int> RunBenchPrefill(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_PREFILL_H_
