// winnow bench link: the rate of pages from the host, and the engine's
// decisions by it.
#ifndef WINNOW_BENCH_ROOFS_BENCH_LINK_H_
#define WINNOW_BENCH_ROOFS_BENCH_LINK_H_

#include "bench/bench.h"

namespace winnow {

Status CheckLinkFlags(const BenchFlags& flags);

// Copies pages of the model's shape over the link in both directions. Then
// prints for each length its prompt's time in an engine. Also prints whether
// that engine would copy the pages from the host or compute them again, by its
// own measurements (engine/schedule/restore_cost.h). Prompts are random tokens,
// read densely.
Result<int> RunBenchLink(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_BENCH_LINK_H_
