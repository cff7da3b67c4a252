#include "cli/serve/connection_limit.h"

#include <algorithm>
#include <cstdio>

#include "base/descriptor_limit.h"

namespace winnow {

Result<int> ConnectionLimit(std::optional<int> asked, int64_t max_descriptors) {
  const int wanted = asked.value_or(kDefaultMaxConnections);
  const int64_t most =
      std::max<int64_t>(0, max_descriptors - kReservedDescriptors);
  if (wanted <= most) return wanted;
  if (!asked && most > 0) return static_cast<int>(most);
  return MakeError(ErrorCode::kResourceExhausted,
                   "--max-connections must be at most {}, as the hard limit of "
                   "open files is {} (ulimit -Hn) and {} are kept for others, "
                   "is {}",
                   most, max_descriptors, kReservedDescriptors, wanted);
}

Result<int> AllowConnections(std::optional<int> asked, bool quiet) {
  const int wanted = asked.value_or(kDefaultMaxConnections);
  const int64_t limit =
      RaiseDescriptorLimit(int64_t{wanted} + kReservedDescriptors);
  ASSIGN_OR_RETURN(const int most, ConnectionLimit(asked, limit));
  if (most < wanted && !quiet) {
    std::fprintf(stderr,
                 "winnow: warning: --max-connections is %d, as the hard limit "
                 "of open files is %lld (ulimit -Hn)\n",
                 most, static_cast<long long>(limit));
  }
  return most;
}

}  // namespace winnow
