// winnow bench decode: decode steps that select beside dense ones, in turn.
#ifndef WINNOW_BENCH_OPS_BENCH_DECODE_H_
#define WINNOW_BENCH_OPS_BENCH_DECODE_H_

#include "bench/bench.h"

namespace winnow {

// What can be said of its flags before a model is there.
Status CheckDecodeFlags(const BenchFlags& flags);

// For each selection two engines whose requests have contexts of random K and
// V: one dense, one that selects. In each round either takes its turn of some
// steps, the other one first the next time; a round's figures are ratios within
// it, and what is printed are their medians. Beside the rate measured stands
// what Amdahl leaves: that of a dense step in which attention alone (what
// summaries, choices and Attend take) is the other's. The first row is a dense
// engine beside one that has all the selections for requests that it does not
// have, whose steps ought to be the same. On the CPU alone.
// REQUIRES: CheckDecodeFlags found nothing.
Result<int> RunBenchDecode(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_DECODE_H_
