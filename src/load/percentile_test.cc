#include "load/percentile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace winnow {
namespace {

// The value of rank `rank`, counted from 0, without sorting: what so many
// others are below, equal ones in any order.
double OfRank(const std::vector<double>& values, size_t rank) {
  for (const double value : values) {
    size_t below = 0, equal = 0;
    for (const double other : values) {
      below += other < value ? 1 : 0;
      equal += other == value ? 1 : 0;
    }
    if (below <= rank && rank < below + equal) return value;
  }
  ADD_FAILURE() << "no value of rank " << rank;
  return NAN;
}

// From the percentages at which each rank lies: 100 * i / (n - 1).
double ByHand(const std::vector<double>& values, double percent) {
  const size_t last = values.size() - 1;
  if (last == 0) return values[0];
  const double step = 100.0 / static_cast<double>(last);
  for (size_t i = 0; i < last; ++i) {
    const double left = step * static_cast<double>(i);
    if (percent > left + step && i + 1 < last) continue;
    const double share = (percent - left) / step;
    return (1 - share) * OfRank(values, i) + share * OfRank(values, i + 1);
  }
  return NAN;
}

TEST(PercentileTest, AsByHand) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + random() % 40;
    std::vector<double> values;
    for (size_t i = 0; i < size; ++i) {
      // Few values, so that some are equal; now and then a large one.
      values.push_back(static_cast<double>(random() % 9) +
                       (random() % 10 == 0 ? 1e4 : 0));
    }
    const Samples samples(values);
    for (const double percent :
         {0.0, 1.0, 12.5, 50.0, 90.0, 99.0, 99.9, 100.0}) {
      EXPECT_NEAR(samples.Percentile(percent), ByHand(values, percent), 1e-7)
          << "size " << size << " percent " << percent;
    }
  }
}

TEST(PercentileTest, KnownValues) {
  const Samples samples({4, 1, 3, 2});
  EXPECT_EQ(samples.Percentile(50), 2.5);
  EXPECT_EQ(samples.Percentile(100), 4);
  EXPECT_DOUBLE_EQ(samples.Percentile(90), 3.7);
  EXPECT_EQ(samples.Mean(), 2.5);
  EXPECT_DOUBLE_EQ(samples.StandardDeviation(), std::sqrt(1.25));
  EXPECT_EQ(samples.size(), 4u);
}

TEST(PercentileTest, OfNone) {
  const Samples samples;
  EXPECT_TRUE(samples.empty());
  EXPECT_EQ(samples.Percentile(99), 0);
  EXPECT_EQ(samples.Mean(), 0);
}

}  // namespace
}  // namespace winnow
