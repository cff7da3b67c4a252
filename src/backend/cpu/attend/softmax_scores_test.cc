// Every set's kernel against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/conformance/float_extremes.h"
#include "backend/cpu/isa/vector_attend.h"

namespace winnow {
namespace {

std::vector<CpuKernels> VectorKernels() {
  std::vector<CpuKernels> sets;
  for (const CpuKernels kernels : AvailableCpuKernels()) {
    if (kernels != CpuKernels::kScalar) sets.push_back(kernels);
  }
  return sets;
}

class SoftmaxScoresTest : public testing::TestWithParam<CpuKernels> {
 protected:
  SoftmaxKernel kernel_ = VectorKernelsOf(GetParam()).softmax_scores;
};

std::vector<float> RandomScores(std::mt19937& random, size_t count,
                                float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> scores(count);
  for (float& score : scores) {
    score = random() % 8 == 0 ? -kInfinity : normal(random);
  }
  scores[random() % count] = normal(random);
  return scores;
}

// log of the sum of the exponentials of scaled scores, and of `other`.
double LogSumExp(const std::vector<float>& scores, double scale, float other) {
  double sum = std::exp(static_cast<double>(other));
  for (const float score : scores) sum += std::exp(score * scale);
  return std::log(sum);
}

constexpr HeadScores::To kWays[] = {
    HeadScores::To::kRows, HeadScores::To::kSums, HeadScores::To::kGreatest};

TEST_P(SoftmaxScoresTest, AreThoseOfFloat64) {
  std::mt19937 random(1);
  for (int round = 0; round < 600; ++round) {
    const auto count = static_cast<size_t>(1 + random() % 200);
    const bool has_others = round % 3 == 0;
    // Of others a score may be above all.
    const float wide = has_others ? 10.0f : 30.0f;
    const float spread = round % 2 == 0 ? 1.0f : wide;
    const std::vector<float> scores = RandomScores(random, count, spread);
    std::vector<float> others;
    if (has_others) {
      others = RandomScores(random, 1 + random() % 60, spread);
    }
    const float scale = round % 5 == 0 ? 1.0f : 0.125f;
    const float other = random() % 2 == 0 ? 0.0f : -kInfinity;
    const double lse = LogSumExp(has_others ? others : scores, scale, other);
    const HeadScores::To to = kWays[random() % 3];
    std::vector<float> rows(count + 1, 0.25f), weights(count + 1, 7);
    // Weights may take the place of the scores.
    const bool in_place = random() % 2 == 0;
    if (in_place) std::ranges::copy(scores, weights.begin());
    ASSERT_TRUE(kernel_({.scores = in_place ? weights.data() : scores.data(),
                         .count = static_cast<int64_t>(count),
                         .normalizer = has_others ? others.data() : nullptr,
                         .num_normalizer = std::ssize(others),
                         .scale = scale,
                         .other = other,
                         .to = to,
                         .rows = rows.data(),
                         .weights = weights.data()}));
    for (size_t i = 0; i < count; ++i) {
      const double weight =
          std::exp(static_cast<double>(scores[i]) * scale - lse);
      // An exponent's error is that of the scaled score and of the log.
      const double off =
          scores[i] == -kInfinity
              ? 0.0
              : 2e-7 *
                    (2 + std::abs(scores[i] * double{scale}) + std::abs(lse)) *
                    weight;
      double expected = weight;
      if (to == HeadScores::To::kSums) expected += 0.25;
      if (to == HeadScores::To::kGreatest) expected = std::max(weight, 0.25);
      ASSERT_NEAR(rows[i], expected, 1e-37 + 1e-7 * expected + off)
          << "round " << round << " score " << scores[i];
    }
    ASSERT_EQ(rows[count], 0.25f);
    ASSERT_EQ(weights[count], 7);
  }
}

TEST_P(SoftmaxScoresTest, LeavesToOthersWhatIsNotFinite) {
  const std::vector<float> ones(40, 1.0f);
  for (const float odd : {kNotANumber, kInfinity, -kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{17}, size_t{39}}) {
      std::vector<float> scores(40, odd == -kInfinity ? -kInfinity : 1.0f);
      scores[at] = odd;
      std::vector<float> rows(40, 0.25f), weights(40);
      HeadScores of = {.scores = scores.data(),
                       .count = 40,
                       .scale = 1,
                       .other = -kInfinity,
                       .to = HeadScores::To::kSums,
                       .rows = rows.data(),
                       .weights = weights.data()};
      EXPECT_FALSE(kernel_(of)) << odd;
      of.scores = ones.data();
      of.normalizer = scores.data();
      of.num_normalizer = 40;
      EXPECT_FALSE(kernel_(of)) << "normalised by " << odd;
      of.scores = scores.data();
      of.normalizer = ones.data();
      // Scores of -infinity weigh nothing.
      EXPECT_EQ(kernel_(of), odd == -kInfinity) << "weighed " << odd;
      EXPECT_EQ(std::ranges::count(rows, 0.25f), 40);
    }
  }
}

TEST_P(SoftmaxScoresTest, LeavesToOthersWhatIsFarAboveItsNormalizer) {
  const std::vector<float> low(20, -100.0f);
  for (const bool is_far : {false, true}) {
    std::vector<float> scores(20, -100.0f);
    scores[18] = is_far ? -9.0f : -11.0f;  // of 2^127 and more than 2^124
    std::vector<float> rows(20, 0.25f);
    EXPECT_EQ(kernel_({.scores = scores.data(),
                       .count = 20,
                       .normalizer = low.data(),
                       .num_normalizer = 20,
                       .scale = 1,
                       .other = -kInfinity,
                       .to = HeadScores::To::kRows,
                       .rows = rows.data()}),
              !is_far);
    const float expected = is_far ? 0.25f : std::exp(89.0f) / 20;
    EXPECT_NEAR(rows[18], expected, 1e-4f * expected);
  }
}

// Wherever it stands: over any other score's its weight is no number.
TEST_P(SoftmaxScoresTest, FindsTheGreatest) {
  constexpr int kCount = 116;  // three pairs of vectors, one, and some
  for (int at = 0; at < kCount; ++at) {
    std::vector<float> scores(kCount, -300.0f);
    scores[static_cast<size_t>(at)] = 300;
    std::vector<float> rows(kCount, 0.25f), weights(kCount);
    ASSERT_TRUE(kernel_({.scores = scores.data(),
                         .count = kCount,
                         .scale = 1,
                         .other = -kInfinity,
                         .to = HeadScores::To::kRows,
                         .rows = rows.data(),
                         .weights = weights.data()}));
    EXPECT_EQ(rows[static_cast<size_t>(at)], 1) << "score " << at;
    EXPECT_EQ(std::ranges::count(rows, 0.0f), kCount - 1) << "score " << at;
  }
}

// A rounded product of these is no exponent any more.
TEST_P(SoftmaxScoresTest, LeavesToOthersWhatIsHuge) {
  const std::vector<float> scores = {1e10f, 1e10f, 1.0f};
  std::vector<float> rows(3, 0.25f), weights(3);
  EXPECT_FALSE(kernel_({.scores = scores.data(),
                        .count = 3,
                        .scale = 0.3f,
                        .other = -kInfinity,
                        .to = HeadScores::To::kRows,
                        .rows = rows.data(),
                        .weights = weights.data()}));
  EXPECT_EQ(std::ranges::count(rows, 0.25f), 3);
}

TEST_P(SoftmaxScoresTest, LeavesWhatIsNoNumberAsItWas) {
  for (const HeadScores::To to :
       {HeadScores::To::kSums, HeadScores::To::kGreatest}) {
    const std::vector<float> scores(20, 1.0f);
    std::vector<float> rows(20, 0.25f), weights(20);
    rows[3] = rows[18] = kNotANumber;
    ASSERT_TRUE(kernel_({.scores = scores.data(),
                         .count = 20,
                         .scale = 1,
                         .other = -kInfinity,
                         .to = to,
                         .rows = rows.data(),
                         .weights = weights.data()}));
    EXPECT_TRUE(std::isnan(rows[3]) && std::isnan(rows[18]));
    EXPECT_EQ(std::ranges::count_if(rows, [](float x) { return x != x; }), 2);
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
