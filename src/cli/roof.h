// What this machine can do at most, measured in the run that it is compared
// with.
#ifndef WINNOW_CLI_ROOF_H_
#define WINNOW_CLI_ROOF_H_

#include <cstddef>
#include <functional>
#include <span>

#include "backend/cpu/thread_pool.h"

namespace winnow {

// Bytes a second that all workers reach by reading `bytes` once, plainly:
// the median of several passes.
double ReadBytesPerSecond(ThreadPool& pool, std::span<const std::byte> bytes);

// Seconds that `work` takes: the median of `num_runs` after one that warms up.
double MedianSeconds(int num_runs, const std::function<void()>& work);

}  // namespace winnow

#endif  // WINNOW_CLI_ROOF_H_
