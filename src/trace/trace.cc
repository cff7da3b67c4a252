#include "trace/trace.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {

int TraceHeader::num_choosing_layers() const {
  return static_cast<int>(std::ranges::count(chooses, true));
}

int TraceHeader::budget_level() const {
  const auto at = std::ranges::find(levels, kBudgetLevel);
  CHECK(at != levels.end(), "levels={}", levels.size());
  return static_cast<int>(at - levels.begin());
}

int64_t TraceRequest::num_rows() const {
  int64_t count = 0;
  for (const TraceStep& step : steps) count += step.num_rows;
  return count;
}

}  // namespace winnow
