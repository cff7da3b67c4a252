#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace winnow::internal {

void CheckFailed(const char* file, int line, const char* condition,
                 std::string_view values) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%.*s\n", file, line, condition,
               values.empty() ? "" : ": ", static_cast<int>(values.size()),
               values.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace winnow::internal
