// What many measurements of one kind come to.
#ifndef WINNOW_LOAD_PERCENTILE_H_
#define WINNOW_LOAD_PERCENTILE_H_

#include <cstddef>
#include <vector>

namespace winnow {

// A set of numbers, in order of size. Immutable once made.
class Samples {
 public:
  Samples() = default;
  explicit Samples(std::vector<double> values);

  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }
  const std::vector<double>& ascending() const { return values_; }

  // 0 of none.
  double Mean() const;
  // Of the population: the root of the mean square from the mean.
  double StandardDeviation() const;
  // Interpolates linearly between the two numbers beside rank
  // percent / 100 * (size - 1), as NumPy's default does (Hyndman and Fan's
  // definition 7). 0 of none. REQUIRES: percent in [0, 100].
  double Percentile(double percent) const;

 private:
  std::vector<double> values_;
};

}  // namespace winnow

#endif  // WINNOW_LOAD_PERCENTILE_H_
