// How many connections `winnow serve` lets in: what was asked for, and what the
// system's limit of open files allows.
#ifndef WINNOW_CLI_SERVE_CONNECTION_LIMIT_H_
#define WINNOW_CLI_SERVE_CONNECTION_LIMIT_H_

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace winnow {

// Without --max-connections: above what a server is asked at once, and a few
// KiB each while they say nothing.
inline constexpr int kDefaultMaxConnections = 4096;
// Of the files that a server opens beside connections: a device's, a disk's,
// the model's while it is loaded.
inline constexpr int kReservedDescriptors = 256;

// Where `asked` is none, the default, or fewer where the limit is lower. Fails
// where what was asked for cannot be kept, or nobody could be let in.
// `max_descriptors`: what the limit is, raised as far as it goes.
Result<int> ConnectionLimit(std::optional<int> asked, int64_t max_descriptors);

// Raises the process' limit for them, and says on standard error where it lets
// in fewer than the default, unless `quiet`. Fails likewise.
Result<int> AllowConnections(std::optional<int> asked, bool quiet);

}  // namespace winnow

#endif  // WINNOW_CLI_SERVE_CONNECTION_LIMIT_H_
