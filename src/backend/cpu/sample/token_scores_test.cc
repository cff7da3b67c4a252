#include "backend/cpu/sample/token_scores.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "backend/conformance/float_extremes.h"

namespace winnow {
namespace {

TEST(TokenScoresTest, OrdersWhatFloatsDoNot) {
  std::vector<float> scores = {1.5f, kNotANumber, kInfinity, -kInfinity, -0.0f};
  EXPECT_EQ(OrderScores(scores), kHighestScore);
  EXPECT_EQ(scores, (std::vector<float>{1.5f, -kInfinity, kHighestScore,
                                        -kInfinity, 0.0f}));
  EXPECT_EQ(std::bit_cast<uint32_t>(scores[4]), 0u);
}

TEST(TokenScoresTest, FindsTheFirstBest) {
  for (const size_t size : {1u, 15u, 16u, 17u, 33u, 1000u}) {
    for (size_t best = 0; best < size; best += 1 + size / 7) {
      std::vector<float> scores(size, -2.0f);
      scores[best] = scores[size - 1] = -1.0f;
      EXPECT_EQ(BestScore(scores), -1.0f) << size << " " << best;
      EXPECT_EQ(FirstTokenWith(scores, -1.0f), static_cast<int32_t>(best));
    }
  }
  EXPECT_EQ(BestScore({}), kExcludedScore);
}

// Expected values by hand; all are exact in binary.
TEST(TokenScoresTest, AppliesPenaltiesInOrder) {
  SamplingRow row;
  row.repetition_penalty = 2.0f;
  row.frequency_penalty = 0.25f;
  row.presence_penalty = 1.0f;
  std::vector<float> scores = {4, 4, -4, -4, 4, 0, -kInfinity, kHighestScore};
  const std::vector<SeenToken> seen = {{4, 3}, {0, 0}, {3, 1}, {2, 0},
                                       {5, 2}, {6, 9}, {7, 0}};
  ApplyPenalties(seen, row, scores);
  EXPECT_EQ(scores, (std::vector<float>{2, 4, -8, -9.25f, 0.25f, -1.5f,
                                        -kInfinity, kHighestScore / 2}));
  row.repetition_penalty = 0.5f;
  ApplyPenalties(std::vector<SeenToken>{{7, 0}, {2, 0}}, row, scores);
  EXPECT_EQ(scores[7], kHighestScore);
  EXPECT_EQ(scores[2], -4.0f);
}

TEST(TokenScoresTest, AddsBias) {
  std::vector<float> scores = {1, 2, 3, -kInfinity, kHighestScore};
  ApplyBias(
      std::vector<TokenBias>{
          {2, -1.5f}, {0, -kInfinity}, {3, kInfinity}, {4, 1e38f}},
      scores);
  EXPECT_EQ(scores, (std::vector<float>{-kInfinity, 2, 1.5f, -kInfinity,
                                        kHighestScore}));
}

TEST(TokenScoresTest, MasksByBit) {
  for (const size_t size : {1u, 31u, 32u, 33u, 100u}) {
    std::vector<uint32_t> mask((size + 31) / 32, ~0u);
    if (mask.size() > 1) mask[1] = 0x5;
    mask[0] = 0x80000001;
    std::vector<float> scores(size, 1.0f);
    ApplyMask(mask.data(), scores);
    for (size_t i = 0; i < size; ++i) {
      const bool allowed = i == 0 || i == 31 || i == 32 || i == 34 || i >= 64;
      EXPECT_EQ(scores[i], allowed ? 1.0f : kExcludedScore) << size << " " << i;
    }
  }
}

TEST(TokenScoresDeathTest, NamesTheToken) {
  std::vector<float> scores(4);
  EXPECT_DEATH(ApplyBias(std::vector<TokenBias>{{4, 1.0f}}, scores),
               "token_id=4 vocab=4");
  EXPECT_DEATH(ApplyPenalties(std::vector<SeenToken>{{-1, 0}}, {}, scores),
               "token_id=-1 vocab=4");
}

}  // namespace
}  // namespace winnow
