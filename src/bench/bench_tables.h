// winnow bench tables: what the tables take that lead to KV.
#ifndef WINNOW_BENCH_BENCH_TABLES_H_
#define WINNOW_BENCH_BENCH_TABLES_H_

#include "bench/bench.h"

namespace winnow {

// Bytes on a device by selection, context and number of requests, all of which
// have slots, as the engine would allocate them (engine/residency/kv_tables.h);
// beside a table of 4 bytes for every token of every (layer, KV head), and
// beside flat tables as SPIN counts them. Measures nothing and allocates
// nothing.
Result<int> RunBenchTables(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_TABLES_H_
