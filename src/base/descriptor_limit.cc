#include "base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace winnow {
namespace {

// RLIM_INFINITY is the largest of its type.
int64_t Count(rlim_t limit) {
  return static_cast<int64_t>(std::min(limit, static_cast<rlim_t>(INT64_MAX)));
}

}  // namespace

int64_t RaiseDescriptorLimit(int64_t num_wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const int64_t is = Count(limit.rlim_cur);
  if (is >= num_wanted) return is;
  const int64_t to = std::min(num_wanted, Count(limit.rlim_max));
  limit.rlim_cur = static_cast<rlim_t>(to);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? to : is;
}

}  // namespace winnow
