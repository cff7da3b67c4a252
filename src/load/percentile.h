// Samples: statistics of many measurements of one kind.
#ifndef WINNOW_LOAD_PERCENTILE_H_
#define WINNOW_LOAD_PERCENTILE_H_

#include <cstddef>
#include <vector>

namespace winnow {

// Numbers in ascending order. Immutable once made.
class Samples {
 public:
  Samples() = default;
  explicit Samples(std::vector<double> values);

  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }
  const std::vector<double>& ascending() const { return values_; }

  // 0 if empty.
  double Mean() const;
  // Of the population: the root of the mean squared deviation.
  double StandardDeviation() const;
  // Interpolates linearly between the two numbers beside rank percent / 100 *
  // (size - 1), as NumPy does by default (Hyndman and Fan's definition 7). 0 if
  // empty. REQUIRES: percent in [0, 100].
  double Percentile(double percent) const;

 private:
  std::vector<double> values_;
};

}  // namespace winnow

#endif  // WINNOW_LOAD_PERCENTILE_H_
