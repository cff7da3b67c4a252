// How many files and connections the process may have open: the system's limit
// for it (RLIMIT_NOFILE), which a shell or a service sets low, but may be
// raised.
#ifndef WINNOW_BASE_DESCRIPTOR_LIMIT_H_
#define WINNOW_BASE_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace winnow {

// Raises it to `num_wanted`, where it is less, as far as the process may.
// Returns what it is then. It is the process': call it before others open much.
int64_t RaiseDescriptorLimit(int64_t num_wanted);

}  // namespace winnow

#endif  // WINNOW_BASE_DESCRIPTOR_LIMIT_H_
