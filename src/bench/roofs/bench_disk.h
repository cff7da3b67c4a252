// winnow bench disk: the rate of restoring pages from a disk, beside plain
// reads.
#ifndef WINNOW_BENCH_ROOFS_BENCH_DISK_H_
#define WINNOW_BENCH_ROOFS_BENCH_DISK_H_

#include "bench/bench.h"

namespace winnow {

// Writes pages of random bytes into a folder of its own below --kv-disk. Each
// round reads them twice, in alternating order: as they lie there, past the
// page cache, and through the store with its checks. Prints both rates;
// medians. Leaves nothing behind.
Result<int> RunBenchDisk(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_BENCH_DISK_H_
