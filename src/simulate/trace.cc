#include "simulate/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

float BandScores::ScoreOf(size_t pick) const {
  if (steps.empty() || steps[pick] == kNone) {
    return -std::numeric_limits<float>::infinity();
  }
  // In float64, where neither the range nor a sum of parts overflows.
  const double share = static_cast<double>(steps[pick]) / kSteps;
  return static_cast<float>((1 - share) * least + share * most);
}

BandScores BandScoresOf(std::span<const float> scores) {
  BandScores of;
  bool any = false;
  for (const float score : scores) {
    if (!std::isfinite(score)) continue;
    of.least = any ? std::min(of.least, score) : score;
    of.most = any ? std::max(of.most, score) : score;
    any = true;
  }
  if (!any) return of;
  const double range = static_cast<double>(of.most) - of.least;
  for (const float score : scores) {
    uint8_t step = BandScores::kNone;
    if (std::isfinite(score)) {
      const double above = static_cast<double>(score) - of.least;
      step = static_cast<uint8_t>(
          range > 0 ? std::lround(above / range * BandScores::kSteps) : 0);
    }
    of.steps.push_back(step);
  }
  return of;
}

int64_t TraceRequest::num_rows() const {
  int64_t count = 0;
  for (const TraceStep& step : steps) count += step.num_rows;
  return count;
}

}  // namespace winnow
