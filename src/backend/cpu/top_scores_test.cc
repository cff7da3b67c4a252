#include "backend/cpu/top_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/vector_read.h"

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

// Best of all sets, and of plain loops, against a sort; beside Above, which has
// the same scratch, and may be asked first.
void ExpectThoseOfASort(TopScores top) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<float> scores(1 + random() % (round % 10 == 1 ? 3000 : 300));
    const float scale = std::pow(10.0f, static_cast<float>(random() % 60) - 30);
    for (float& score : scores) {
      // Whole numbers give many ties, at zero too, of both signs.
      const int steps = round % 3 == 0 ? 3 : 1 << 20;
      score = scale * static_cast<float>(static_cast<int>(random() % 1000003) %
                                             (2 * steps + 1) -
                                         steps);
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

TEST(TopScoresTest, AreThoseOfASort) {
  ExpectThoseOfASort(TopScores());
  for (const CpuKernels set : AvailableCpuKernels()) {
    if (set == CpuKernels::kScalar) continue;
    SCOPED_TRACE(CpuKernelsName(set));
    const ReadKernels kernels = ReadKernelsOf(set);
    ExpectThoseOfASort(TopScores(&kernels));
  }
}

}  // namespace
}  // namespace winnow
