// winnow bench disk: what restoring pages from a disk reaches of plain reads.
#ifndef WINNOW_BENCH_ROOFS_BENCH_DISK_H_
#define WINNOW_BENCH_ROOFS_BENCH_DISK_H_

#include "bench/bench.h"

namespace winnow {

// Writes pages of random bytes into a folder of its own below --kv-disk, and
// in each round reads them twice: past the page cache as they lie there, and
// through the store, each checked, in turn first.
// Prints both rates; medians. Leaves nothing behind.
Result<int> RunBenchDisk(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_BENCH_DISK_H_
