// Every set's kernel against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/vector_read.h"

namespace winnow {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::vector<CpuKernels> VectorKernels() {
  std::vector<CpuKernels> sets;
  for (const CpuKernels kernels : AvailableCpuKernels()) {
    if (kernels != CpuKernels::kScalar) sets.push_back(kernels);
  }
  return sets;
}

class SoftmaxScoresTest : public testing::TestWithParam<CpuKernels> {
 protected:
  SoftmaxKernel kernel_ = ReadKernelsOf(GetParam()).softmax_scores;
};

TEST_P(SoftmaxScoresTest, AreThoseOfFloat64) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto count = static_cast<size_t>(1 + random() % 200);
    std::normal_distribution<float> normal(round % 3 == 0 ? 40.0f : 0.0f,
                                           round % 2 == 0 ? 1.0f : 30.0f);
    std::vector<float> scores(count);
    for (float& score : scores) {
      score = random() % 8 == 0 ? kNone : normal(random);
    }
    scores[random() % count] = normal(random);
    const float scale = round % 5 == 0 ? 1.0f : 0.125f;
    const float other = random() % 2 == 0 ? 0.0f : kNone;
    double sum = std::exp(static_cast<double>(other));
    for (const float score : scores) {
      sum += std::exp(static_cast<double>(score) * scale);
    }
    const bool adds = random() % 2 == 0;
    std::vector<float> rows(count + 1, 0.25f);
    ASSERT_TRUE(kernel_({.scores = scores.data(),
                         .count = static_cast<int64_t>(count),
                         .scale = scale,
                         .other = other,
                         .adds = adds,
                         .rows = rows.data()}));
    for (size_t i = 0; i < count; ++i) {
      const double weight =
          std::exp(static_cast<double>(scores[i]) * scale) / sum;
      // An exponent's error is that of the scaled score and of the log.
      const double step = 2e-7 * (2 + std::abs(scores[i] * double{scale}) +
                                  std::abs(std::log(sum)));
      const double expected = (adds ? 0.25 : 0) + weight;
      if (scores[i] == kNone) {
        ASSERT_EQ(rows[i], adds ? 0.25f : 0.0f) << "round " << round;
      } else {
        ASSERT_NEAR(rows[i], expected, (adds ? 1e-7 : 1e-37) + step * weight)
            << "round " << round << " score " << scores[i];
      }
    }
    ASSERT_EQ(rows[count], 0.25f);
  }
}

TEST_P(SoftmaxScoresTest, LeavesToOthersWhatIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float odd : {kNan, -kNone, kNone}) {
    for (const size_t at : {size_t{0}, size_t{17}, size_t{39}}) {
      std::vector<float> scores(40, odd == kNone ? kNone : 1.0f);
      scores[at] = odd;
      std::vector<float> rows(40, 0.25f);
      EXPECT_FALSE(kernel_({.scores = scores.data(),
                            .count = 40,
                            .scale = 1,
                            .other = kNone,
                            .adds = true,
                            .rows = rows.data()}));
      EXPECT_EQ(std::ranges::count(rows, 0.25f), 40);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, SoftmaxScoresTest,
                         testing::ValuesIn(VectorKernels()),
                         [](const auto& set) {
                           std::string name(CpuKernelsName(set.param));
                           std::erase(name, '-');
                           std::erase(name, '_');
                           return name;
                         });

}  // namespace
}  // namespace winnow
