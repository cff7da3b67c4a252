// The limit of open files and connections of the process (RLIMIT_NOFILE). A
// shell or a service sets it low, but the process may raise it.
#ifndef WINNOW_BASE_DESCRIPTOR_LIMIT_H_
#define WINNOW_BASE_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace winnow {

// Raises the limit to `num_wanted` if it is less, as far as the process may.
// Returns the new limit. The limit is global to the process, so call it before
// other code opens many files.
int64_t RaiseDescriptorLimit(int64_t num_wanted);

}  // namespace winnow

#endif  // WINNOW_BASE_DESCRIPTOR_LIMIT_H_
