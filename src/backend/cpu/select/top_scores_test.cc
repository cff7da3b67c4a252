#include "backend/cpu/select/top_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "backend/cpu/isa/cpu_kernels.h"
#include "backend/cpu/isa/vector_attend.h"

namespace winnow {
namespace {

std::vector<int64_t> Sorted(std::span<const float> scores, int64_t count) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  std::ranges::sort(order);
  return order;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// From -steps to steps.
float WholeNumber(int steps, std::mt19937& random) {
  const auto number = random() % static_cast<unsigned>(2 * steps + 1);
  return static_cast<float>(static_cast<int>(number) - steps);
}

// Best of all sets, and of plain loops, against a sort; beside Above, which has
// the same scratch, and may be asked first.
void ExpectThoseOfASort(TopScores top) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<float> scores(1 + random() % (round % 10 == 1 ? 3000 : 300));
    const float scale = std::pow(10.0f, static_cast<float>(random() % 60) - 30);
    for (float& score : scores) {
      // Whole numbers give many ties, at zero too, of both signs.
      const int steps = round % 3 == 0 ? 3 : 1 << 20;
      score = scale * WholeNumber(steps, random);
      if (round % 5 == 0 && random() % 3 == 0) score = -kInfinity;
      if (round % 7 == 0 && random() % 9 == 0) score = kInfinity;
      if (random() % 10 == 0) score = -0.0f;
    }
    if (round % 4 == 0) {
      const std::span<const int32_t> above = top.Above(scores, 0.0f);
      ASSERT_EQ(std::ssize(above),
                std::ranges::count_if(scores, [](float s) { return s > 0; }));
    }
    const size_t most = round % 2 == 0 ? scores.size() : scores.size() / 8 + 1;
    const auto count = static_cast<int64_t>(1 + random() % most);
    const std::span<const int32_t> best = top.Best(scores, count);
    const std::vector<int64_t> got(best.begin(), best.end());
    ASSERT_EQ(got, Sorted(scores, count)) << "round " << round;
  }
}

// expect(top) of all sets, and of plain loops.
void ForEachSet(const std::function<void(TopScores)>& expect) {
  expect(TopScores());
  for (const CpuKernels set : AvailableCpuKernels()) {
    if (set == CpuKernels::kScalar) continue;
    SCOPED_TRACE(CpuKernelsName(set));
    const VectorKernels kernels = VectorKernelsOf(set);
    expect(TopScores(&kernels));
  }
}

TEST(TopScoresTest, AreThoseOfASort) { ForEachSet(ExpectThoseOfASort); }

// -0 is below 0.
bool IsAbove(float a, float b) {
  return a > b || (a == b && std::signbit(b) && !std::signbit(a));
}

int64_t WeightFrom(std::span<const float> scores,
                   std::span<const int32_t> weights, float least) {
  int64_t sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!IsAbove(least, scores[i])) sum += weights[i];
  }
  return sum;
}

// Cut by weights, some of them 0, with ties, infinities and zeros of both
// signs: what it leaves has the weight that was asked for, and is the least
// that has, or has no more than was allowed.
void ExpectTheWeightAskedFor(TopScores top) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<float> scores(1 + random() % 300);
    std::vector<int32_t> weights(scores.size());
    int64_t sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      scores[i] = WholeNumber(round % 3 == 0 ? 3 : 1 << 20, random);
      if (random() % 10 == 0) scores[i] = -0.0f;
      if (random() % 10 == 0) scores[i] = -kInfinity;
      if (random() % 10 != 0) weights[i] = static_cast<int32_t>(random() % 100);
      sum += weights[i];
    }
    if (sum == 0) continue;
    auto least = static_cast<int64_t>(random() % static_cast<uint64_t>(sum));
    if (round % 2 == 0) {  // that of a score and those above it
      least = WeightFrom(scores, weights, scores[random() % scores.size()]);
    }
    least = std::max<int64_t>(least, 1);
    const int64_t most = least + static_cast<int64_t>(random() % 2 * 20);
    const float cut = top.Cut(scores, weights, least, most);
    int64_t above = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (IsAbove(scores[i], cut)) above += weights[i];
    }
    const int64_t from = WeightFrom(scores, weights, cut);
    ASSERT_GE(from, least) << "round " << round;
    ASSERT_TRUE(from <= most || above < least)
        << "round " << round << ": " << from << " of " << least << " to "
        << most << ", " << above << " above";
  }
}

TEST(TopScoresTest, ACutHasTheWeightAskedFor) {
  ForEachSet(ExpectTheWeightAskedFor);
}

}  // namespace
}  // namespace winnow
