// winnow bench tiers: decode steps with and without tiers, in turn.
#ifndef WINNOW_BENCH_BENCH_TIERS_H_
#define WINNOW_BENCH_BENCH_TIERS_H_

#include "bench/bench.h"

namespace winnow {

// Checks of the flags that need no model.
Status CheckTiersFlags(const BenchFlags& flags);

// Runs engines side by side with equal requests. One has a device pool alone,
// one an unused host pool beside it. Further ones, one for each cache budget,
// have requests with cache slots. In each round every engine takes a turn of
// some steps, in changing order. A round's figures are ratios to the first
// engine's turn; prints their medians. All engines must draw the same tokens.
// Also prints Fetch's lookup of 2,048 picks a request in all selecting layers,
// without misses, as a share of the first engine's step. On the CPU alone.
// REQUIRES: CheckTiersFlags succeeded.
Result<int> RunBenchTiers(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_TIERS_H_
