// ConnectionLimit: the number of connections that `winnow serve` accepts, by
// its flag and the system's limit of open files.
#ifndef WINNOW_CLI_SERVE_CONNECTION_LIMIT_H_
#define WINNOW_CLI_SERVE_CONNECTION_LIMIT_H_

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace winnow {

// The default: above a server's usual number of clients. An idle connection
// takes a few KiB.
inline constexpr int kDefaultMaxConnections = 4096;
// Files that a server opens beside connections: for the device, the disk, and
// the model during loading.
inline constexpr int kReservedDescriptors = 256;

// Without `asked`, the default, or fewer if the limit is lower. Fails if
// `asked` exceeds the limit, or if no connection would fit. `max_descriptors`:
// the limit after raising it.
Result<int> ConnectionLimit(std::optional<int> asked, int64_t max_descriptors);

// Raises the process's limit. Says on standard error, unless `quiet`, if fewer
// than the default fit. Fails as ConnectionLimit does.
Result<int> AllowConnections(std::optional<int> asked, bool quiet);

}  // namespace winnow

#endif  // WINNOW_CLI_SERVE_CONNECTION_LIMIT_H_
