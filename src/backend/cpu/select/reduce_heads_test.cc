// Every set's kernel against plain arithmetic, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/isa/vector_attend.h"

namespace winnow {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

float Reduced(const HeadRows& of, int64_t row) {
  float result = of.scores[row];
  for (int head = 1; head < of.num_heads; ++head) {
    const float score = of.scores[head * of.stride + row];
    result = of.takes_greatest ? std::max(result, score) : result + score;
  }
  result /= of.divisor;
  return std::isnan(result) ? kNone : result;
}

// Some scores are infinite or none at all, in the first head or in others.
std::vector<float> RandomScores(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> scores(count);
  for (float& score : scores) {
    const auto kind = random() % 32;
    score = kind == 0   ? std::numeric_limits<float>::quiet_NaN()
            : kind == 1 ? kNone
            : kind == 2 ? -kNone
                        : normal(random);
  }
  return scores;
}

TEST(ReduceHeadsTest, IsPlainArithmeticAndWritesNoMore) {
  for (const CpuKernels set : AvailableCpuKernels()) {
    if (set == CpuKernels::kScalar) continue;
    const ReduceKernel kernel = VectorKernelsOf(set).reduce_heads;
    std::mt19937 random(1);
    for (int round = 0; round < 500; ++round) {
      HeadRows of;
      of.num_heads = 1 + round % 7;
      of.count = static_cast<int64_t>(random() % 70);
      of.stride = of.count + static_cast<int64_t>(random() % 3);
      of.takes_greatest = random() % 2 == 0;
      if (!of.takes_greatest && random() % 2 == 0) {
        of.divisor = static_cast<float>(of.num_heads);
      }
      const std::vector<float> scores = RandomScores(
          random, static_cast<size_t>(of.num_heads * of.stride + 1));
      of.scores = scores.data();
      std::vector<float> to(static_cast<size_t>(of.count + 1), 7);
      kernel(of, to.data());
      for (int64_t row = 0; row < of.count; ++row) {
        ASSERT_EQ(to[static_cast<size_t>(row)], Reduced(of, row))
            << CpuKernelsName(set) << " round " << round << " row " << row;
      }
      ASSERT_EQ(to.back(), 7);
    }
  }
}

}  // namespace
}  // namespace winnow
