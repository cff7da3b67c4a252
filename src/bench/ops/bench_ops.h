// winnow bench ops: each op alone, at a checkpoint's shapes.
#ifndef WINNOW_BENCH_OPS_BENCH_OPS_H_
#define WINNOW_BENCH_OPS_BENCH_OPS_H_

#include "bench/bench.h"

namespace winnow {

// Prints a row for each op: milliseconds, bytes and flops a second, and the
// share of the applicable roof.
Result<int> RunBenchOps(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_OPS_H_
