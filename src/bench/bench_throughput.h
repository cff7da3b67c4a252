// winnow bench throughput: fixed prompts and answers, offline, on any device.
#ifndef WINNOW_BENCH_BENCH_THROUGHPUT_H_
#define WINNOW_BENCH_BENCH_THROUGHPUT_H_

#include "bench/bench.h"

namespace winnow {

// What can be said of its flags before a model is there.
Status CheckThroughputFlags(const BenchFlags& flags);

// For each of the flags' selections, contexts and batches: requests of random
// tokens that arrive together; or of each selection and batch questions of a
// task file, and how many answers are right. Prints the time to the first token
// of the last of them, and the time of a step in which all generate; medians.
// REQUIRES: CheckThroughputFlags found nothing.
Result<int> RunBenchThroughput(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_THROUGHPUT_H_
