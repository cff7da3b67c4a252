// winnow bench verbs: each verb alone, at a checkpoint's shapes.
#ifndef WINNOW_BENCH_OPS_BENCH_VERBS_H_
#define WINNOW_BENCH_OPS_BENCH_VERBS_H_

#include "bench/bench.h"

namespace winnow {

// Prints a row a verb: milliseconds, bytes and flops a second, and the share
// of the roof that applies.
Result<int> RunBenchVerbs(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_VERBS_H_
