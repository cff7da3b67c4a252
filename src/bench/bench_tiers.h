// winnow bench tiers: decode steps with and without tiers, in turn.
#ifndef WINNOW_BENCH_BENCH_TIERS_H_
#define WINNOW_BENCH_BENCH_TIERS_H_

#include "bench/bench.h"

namespace winnow {

// What can be said of its flags before a model is there.
Status CheckTiersFlags(const BenchFlags& flags);

// Engines side by side, whose requests begin alike: one that has a device's
// pool alone, one with a host's beside it that nobody needs, and one for each
// cache budget, whose requests have slots. In each round every engine takes its
// turn of some steps, in another order each time; a round's figures are ratios
// to the first engine's turn in it, and what is printed are their medians. All
// must draw the same tokens. Beside them Fetch's lookup, where nothing is
// missing, of 2,048 picks a request in all layers that choose, as a share of
// the first engine's step. On the CPU alone.
// REQUIRES: CheckTiersFlags found nothing.
Result<int> RunBenchTiers(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_TIERS_H_
