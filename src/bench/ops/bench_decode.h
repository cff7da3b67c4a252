// winnow bench decode: decode steps with a selector beside dense ones, in turn.
#ifndef WINNOW_BENCH_OPS_BENCH_DECODE_H_
#define WINNOW_BENCH_OPS_BENCH_DECODE_H_

#include "bench/bench.h"

namespace winnow {

// Checks of the flags that need no model.
Status CheckDecodeFlags(const BenchFlags& flags);

// For each selection compares two engines over contexts of random K and V: a
// dense one and one that selects. In each round both take a turn of some steps;
// the order alternates. A round's figures are ratios within it; prints their
// medians.
//
// Beside the measured rate stands Amdahl's bound: a dense step whose attention
// alone (summaries, choices and Attend) takes the other engine's time. The
// first row compares a dense engine with one that has all the selectors but no
// request that uses them; their steps should be equal. On the CPU alone.
// REQUIRES: CheckDecodeFlags succeeded.
Result<int> RunBenchDecode(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_DECODE_H_
