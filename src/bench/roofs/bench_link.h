// winnow bench link: how fast pages come from the host, and what an engine
// decides by that.
#ifndef WINNOW_BENCH_ROOFS_BENCH_LINK_H_
#define WINNOW_BENCH_ROOFS_BENCH_LINK_H_

#include "bench/bench.h"

namespace winnow {

Status CheckLinkFlags(const BenchFlags& flags);

// Pages of the model's shape copied over the link in both directions; then, for
// each length, the time that its prompt took in an engine, and whether that
// engine would copy its pages from the host or compute them again, by what it
// measured of itself (engine/schedule/restore_cost.h). Prompts are random
// tokens, read densely.
Result<int> RunBenchLink(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_BENCH_LINK_H_
