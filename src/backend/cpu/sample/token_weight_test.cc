#include "backend/cpu/sample/token_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/conformance/float_extremes.h"

namespace winnow {
namespace {

constexpr uint64_t kBestWeight = uint64_t{1} << kWeightBits;
constexpr float kHighest = std::numeric_limits<float>::max();

TEST(TokenWeightTest, IsTheExponential) {
  for (const float temperature : {0.1f, 0.7f, 1.0f, 3.0f}) {
    const float best = 5.0f;
    const WeightScale scale = MakeWeightScale(best, temperature);
    for (int i = 0; i < 20000; ++i) {
      const float score = best - static_cast<float>(i) * 1e-3f * temperature;
      const double exact =
          std::exp((static_cast<double>(score) - best) / temperature);
      const double weight = std::ldexp(
          static_cast<double>(TokenWeight(score, scale)), -kWeightBits);
      // Float32's rounding of an exponent of up to 29 octaves.
      ASSERT_NEAR(weight, exact, 4e-6 * exact + 3e-14)
          << "score=" << score << " temperature=" << temperature;
    }
  }
}

TEST(TokenWeightTest, NeverDecreasesWithTheScore) {
  const WeightScale scale = MakeWeightScale(0.0f, 1.0f);
  uint64_t last = kBestWeight;
  float score = -1e-9f;
  for (int i = 0; i < 1000000; ++i) {
    const uint64_t weight = TokenWeight(score, scale);
    ASSERT_LE(weight, last) << "score=" << score;
    last = weight;
    score *= 1.00003f;
  }
  EXPECT_EQ(last, 0u);
}

TEST(TokenWeightTest, BearsExtremes) {
  const WeightScale widest = MakeWeightScale(kHighest, 1e-45f);
  EXPECT_EQ(TokenWeight(kHighest, widest), kBestWeight);
  EXPECT_EQ(TokenWeight(-kHighest, widest), 0u);
  EXPECT_EQ(TokenWeight(-kInfinity, widest), 0u);
  const WeightScale hottest = MakeWeightScale(1.0f, kHighest);
  EXPECT_EQ(TokenWeight(-1.0f, hottest), kBestWeight);
}

// Also that wide registers give the bits of narrow ones.
TEST(TokenWeightTest, BlocksAreFilledTokenByToken) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 6);
  for (const size_t size : {1u, 7u, 16u, 100u, 256u}) {
    std::vector<float> scores(size);
    for (float& score : scores) score = std::min(25.0f, normal(random));
    const WeightScale scale = MakeWeightScale(25.0f, 1.3f);
    const float threshold = scores[size / 2];
    std::vector<uint64_t> weights(size, 1);
    FillWeights(scores, threshold, scale, weights.data());
    for (size_t i = 0; i < size; ++i) {
      const uint64_t expected =
          scores[i] >= threshold ? TokenWeight(scores[i], scale) : 0;
      ASSERT_EQ(weights[i], expected) << i << " of " << size;
    }
  }
}

TEST(TokenWeightTest, RowsAddUpExactlyHoweverTheyAreCut) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> scores(3000);
  for (float& score : scores) score = normal(random);
  scores[7] = 20.0f;
  const WeightScale scale = MakeWeightScale(20.0f, 2.0f);
  const float threshold = -1.0f;
  uint64_t one_by_one = 0;
  for (const float score : scores) {
    if (score >= threshold) one_by_one += TokenWeight(score, scale);
  }
  const std::span<const float> all(scores);
  EXPECT_EQ(SumWeights(all, threshold, scale), one_by_one);
  EXPECT_EQ(SumWeights(all.first(1001), threshold, scale) +
                SumWeights(all.subspan(1001), threshold, scale),
            one_by_one);
}

TEST(TokenWeightDeathTest, NamesWhatIsWrong) {
  EXPECT_DEATH(MakeWeightScale(kInfinity, 1.0f), "best=inf temperature=1");
  EXPECT_DEATH(MakeWeightScale(1.0f, 0.0f), "best=1 temperature=0");
}

}  // namespace
}  // namespace winnow
