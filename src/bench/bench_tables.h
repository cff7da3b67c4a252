// winnow bench tables: the bytes of the tables that lead to KV.
#ifndef WINNOW_BENCH_BENCH_TABLES_H_
#define WINNOW_BENCH_BENCH_TABLES_H_

#include "bench/bench.h"

namespace winnow {

// Prints device bytes by selection, context and number of requests, all with
// cache slots, as the engine would allocate them
// (engine/residency/kv_tables.h). Compares them with a table of 4 bytes for
// every token of every (layer, KV head), and with SPIN's flat tables. Measures
// and allocates nothing.
Result<int> RunBenchTables(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_TABLES_H_
