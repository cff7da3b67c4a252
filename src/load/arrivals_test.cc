#include "load/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace winnow {
namespace {

constexpr size_t kCount = 20001;
constexpr double kRate = 8;

std::vector<double> GapsOf(const std::vector<double>& times) {
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) {
    gaps.push_back(times[i] - times[i - 1]);
  }
  return gaps;
}

std::vector<double> GapsOf(double burstiness, uint64_t seed = 7) {
  return GapsOf(ArrivalTimes(
      {.requests_per_second = kRate, .burstiness = burstiness}, kCount, seed));
}

// The largest distance between the sample's distribution and `below`, the
// exact share below a value (Kolmogorov and Smirnov), times the root of the
// sample's size: above 1.95 once in a thousand samples.
double Distance(std::vector<double> sample,
                const std::function<double(double)>& below) {
  std::sort(sample.begin(), sample.end());
  const auto size = static_cast<double>(sample.size());
  double most = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double exact = below(sample[i]);
    const auto rank = static_cast<double>(i);
    most = std::max({most, exact - rank / size, (rank + 1) / size - exact});
  }
  return most * std::sqrt(size);
}

constexpr double kMostDistance = 1.95;

TEST(ArrivalsTest, GapsOfPoissonArrivalsAreExponential) {
  EXPECT_LT(Distance(GapsOf(1),
                     [](double gap) { return 1 - std::exp(-kRate * gap); }),
            kMostDistance);
}

// The sum of k exponentials of rate k * kRate (Erlang).
TEST(ArrivalsTest, EvenArrivalsFollowTheGammaDistribution) {
  for (const int k : {2, 5}) {
    const auto below = [k](double gap) {
      const double x = gap * kRate * k;
      double term = std::exp(-x), sum = 0;
      for (int i = 0; i < k; ++i) {
        sum += term;
        term *= x / (i + 1);
      }
      return 1 - sum;
    };
    EXPECT_LT(Distance(GapsOf(k), below), kMostDistance) << k;
  }
}

// Of shape 1/2 it is a scaled square of a normal variable (chi-squared); of
// 1/4 its mean and variance are known.
TEST(ArrivalsTest, BurstsFollowTheGammaDistribution) {
  EXPECT_LT(Distance(GapsOf(0.5),
                     [](double gap) {
                       return std::erf(std::sqrt(gap * kRate * 0.5));
                     }),
            kMostDistance);
  double sum = 0, squares = 0;
  const std::vector<double> gaps = GapsOf(0.25);
  for (const double gap : gaps) {
    sum += gap * kRate;
    squares += gap * kRate * gap * kRate;
  }
  const auto count = static_cast<double>(gaps.size());
  const double mean = sum / count;
  EXPECT_NEAR(mean, 1, 0.06);
  EXPECT_NEAR(squares / count - mean * mean, 4, 0.6);
}

TEST(ArrivalsTest, AGapSaysNothingOfTheNext) {
  for (const double burstiness : {0.5, 1.0, 3.0}) {
    const std::vector<double> gaps = GapsOf(burstiness);
    double together = 0, squares = 0;
    for (size_t i = 0; i + 1 < gaps.size(); ++i) {
      const double one = gaps[i] * kRate - 1, next = gaps[i + 1] * kRate - 1;
      together += one * next;
      squares += one * one;
    }
    EXPECT_LT(std::abs(together / squares), 0.03) << burstiness;
  }
}

// In a Poisson process the number in any second has the variance of its mean.
TEST(ArrivalsTest, PoissonCountsASecondVaryAsTheyShould) {
  const std::vector<double> times =
      ArrivalTimes({.requests_per_second = kRate}, kCount, 3);
  std::vector<double> counts(static_cast<size_t>(times.back()), 0.0);
  for (const double time : times) {
    const auto second = static_cast<size_t>(time);
    if (second < counts.size()) counts[second] += 1;
  }
  double sum = 0, squares = 0;
  for (const double count : counts) {
    sum += count;
    squares += count * count;
  }
  const auto seconds = static_cast<double>(counts.size());
  const double mean = sum / seconds;
  EXPECT_NEAR(mean, kRate, 0.25);
  EXPECT_NEAR((squares / seconds - mean * mean) / mean, 1, 0.12);
}

TEST(ArrivalsTest, TheSeedAloneDecides) {
  const ArrivalProcess process{.requests_per_second = 3, .burstiness = 0.7};
  EXPECT_EQ(ArrivalTimes(process, 500, 1), ArrivalTimes(process, 500, 1));
  EXPECT_NE(ArrivalTimes(process, 500, 1), ArrivalTimes(process, 500, 2));
  // A longer load begins as the shorter one.
  const std::vector<double> more = ArrivalTimes(process, 900, 1);
  EXPECT_TRUE(
      std::ranges::equal(ArrivalTimes(process, 500, 1),
                         std::vector(more.begin(), more.begin() + 500)));
  EXPECT_TRUE(std::ranges::is_sorted(more));
  EXPECT_EQ(more.front(), 0);
}

TEST(ArrivalsTest, AllAtOnce) {
  EXPECT_EQ(ArrivalTimes({}, 3, 1), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(ArrivalTimes({.requests_per_second = 1}, 0, 1).empty());
}

}  // namespace
}  // namespace winnow
