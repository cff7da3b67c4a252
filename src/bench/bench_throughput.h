// winnow bench throughput: fixed prompts and answers, offline, on any device.
#ifndef WINNOW_BENCH_BENCH_THROUGHPUT_H_
#define WINNOW_BENCH_BENCH_THROUGHPUT_H_

#include "bench/bench.h"

namespace winnow {

// Checks of the flags that need no model.
Status CheckThroughputFlags(const BenchFlags& flags);

// Runs requests of random tokens that arrive together, for each of the flags'
// selections, contexts and batches. With a task file, runs its questions for
// each selection and batch and counts right answers. Prints the time until all
// have a first token, and the time of a step in which all generate; medians.
// REQUIRES: CheckThroughputFlags succeeded.
Result<int> RunBenchThroughput(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_THROUGHPUT_H_
