#include "load/percentile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace winnow {

Samples::Samples(std::vector<double> values) : values_(std::move(values)) {
  std::sort(values_.begin(), values_.end());
}

double Samples::Mean() const {
  if (values_.empty()) return 0;
  return std::accumulate(values_.begin(), values_.end(), 0.0) /
         static_cast<double>(values_.size());
}

double Samples::StandardDeviation() const {
  if (values_.empty()) return 0;
  const double mean = Mean();
  double squares = 0;
  for (const double value : values_) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values_.size()));
}

double Samples::Percentile(double percent) const {
  CHECK(percent >= 0 && percent <= 100, "percent={}", percent);
  if (values_.empty()) return 0;
  const double rank = percent / 100 * static_cast<double>(values_.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, values_.size() - 1);
  const double share = rank - static_cast<double>(below);
  return values_[below] + share * (values_[above] - values_[below]);
}

}  // namespace winnow
