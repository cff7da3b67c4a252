// How much memory the machine, or the control group, gives this process.
#ifndef WINNOW_BACKEND_CPU_HOST_MEMORY_H_
#define WINNOW_BACKEND_CPU_HOST_MEMORY_H_

#include <cstdint>

namespace winnow {

// Physical memory, or the control group's limit where that is lower.
int64_t TotalHostBytes();
// What can be taken now without swapping, bounded by the same limit.
int64_t AvailableHostBytes();

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_HOST_MEMORY_H_
