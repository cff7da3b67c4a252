#include "backend/cpu/sample/kept_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "backend/conformance/sampling_oracle.h"
#include "backend/cpu/sample/token_scores.h"

namespace winnow {
namespace {

WeightScale ScaleOf(const OracleCase& asked) {
  return MakeWeightScale(BestScore(asked.logits), asked.row.temperature);
}

// The kept token ids, ascending, as the description of KeptTokens reads.
std::vector<int32_t> IdsOf(const std::vector<float>& scores,
                           const KeptTokens& kept) {
  std::vector<int32_t> ids;
  int64_t ties_left = kept.num_ties;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > kept.threshold ||
        (scores[i] == kept.threshold && ties_left-- > 0)) {
      ids.push_back(static_cast<int32_t>(i));
    }
  }
  return ids;
}

// Rows of every kind: flat and steep, with many ties and with none.
OracleCase RandomCase(std::mt19937& random) {
  OracleCase asked;
  const size_t sizes[] = {1, 2, 17, 256, 300, 3000};
  const float spreads[] = {0.01f, 1, 5, 40};
  const size_t size = sizes[random() % 6];
  std::normal_distribution<float> normal(0, spreads[random() % 4]);
  const bool coarse = random() % 2 == 0;
  for (size_t i = 0; i < size; ++i) {
    const float score = normal(random);
    asked.logits.push_back(coarse ? static_cast<float>(static_cast<int>(score))
                                  : score);
  }
  if (random() % 4 == 0) asked.logits[random() % size] = kExcludedScore;
  if (BestScore(asked.logits) == kExcludedScore) asked.logits[0] = 0;
  std::uniform_real_distribution<float> share(0, 1);
  asked.row.temperature = 0.05f + 2 * share(random);
  if (random() % 2 == 0) asked.row.top_p = share(random);
  if (random() % 3 == 0) asked.row.min_p = 0.3f * share(random);
  if (random() % 2 == 0) asked.row.top_k = 1 + static_cast<int>(random() % 60);
  return asked;
}

TEST(KeptTokensTest, AreTheBeginningOfTheSortedRow) {
  std::mt19937 random(21);
  int num_exact = 0;
  constexpr int kCases = 1500;
  for (int i = 0; i < kCases; ++i) {
    const OracleCase asked = RandomCase(random);
    const OracleAnswer answer = AskOracle(asked);
    const WeightScale scale = ScaleOf(asked);
    const KeptTokens kept = KeepTokens(asked.logits, asked.row, scale);
    const std::vector<int32_t> ids = IdsOf(asked.logits, kept);
    ASSERT_GE(ids.size(), answer.min_kept) << "case " << i;
    ASSERT_LE(ids.size(), answer.max_kept) << "case " << i;
    num_exact += answer.min_kept == answer.max_kept;
    std::vector<int32_t> expected(
        answer.order.begin(),
        answer.order.begin() + static_cast<int64_t>(ids.size()));
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(ids, expected) << "case " << i;
    uint64_t weight = 0;
    for (const int32_t id : ids) {
      weight += TokenWeight(asked.logits[static_cast<size_t>(id)], scale);
    }
    ASSERT_EQ(kept.weight, weight) << "case " << i;
  }
  EXPECT_GE(num_exact, kCases * 95 / 100);
}

// Each token is drawn by exactly the numbers of its share.
TEST(KeptTokensTest, SharesLieSideBySide) {
  OracleCase asked;
  asked.logits = {1, 3, 2, 3, 2, 2, -5};
  asked.row.top_k = 4;  // 3, 3 and the first two of 2, 2, 2
  const WeightScale scale = ScaleOf(asked);
  const KeptTokens kept = KeepTokens(asked.logits, asked.row, scale);
  const std::vector<int32_t> ids = IdsOf(asked.logits, kept);
  ASSERT_EQ(ids, (std::vector<int32_t>{1, 2, 3, 4}));
  __extension__ using Wide = unsigned __int128;
  // The smallest number whose product with the weight reaches `place`.
  const auto bits_at = [&](uint64_t place) {
    return static_cast<uint64_t>(((Wide{place} << 64) + kept.weight - 1) /
                                 kept.weight);
  };
  uint64_t place = 0;
  for (const int32_t id : ids) {
    const uint64_t weight =
        TokenWeight(asked.logits[static_cast<size_t>(id)], scale);
    EXPECT_EQ(DrawToken(asked.logits, kept, scale, bits_at(place)), id);
    place += weight;
    EXPECT_EQ(DrawToken(asked.logits, kept, scale, bits_at(place - 1)), id);
    const uint64_t last = place == kept.weight
                              ? std::numeric_limits<uint64_t>::max()
                              : bits_at(place) - 1;
    EXPECT_EQ(DrawToken(asked.logits, kept, scale, last), id);
  }
}

// Ties are spread over blocks: the first by id stay, wherever they are.
TEST(KeptTokensTest, TiesGoToTheLowestIdsAcrossBlocks) {
  std::vector<float> scores(2000, 1.0f);
  scores[1999] = 2.0f;
  SamplingRow row;
  const WeightScale scale = MakeWeightScale(2.0f, 1.0f);
  for (const int top_k : {1, 2, 256, 257, 258, 600, 1999, 2000}) {
    row.top_k = top_k;
    const KeptTokens kept = KeepTokens(scores, row, scale);
    const std::vector<int32_t> ids = IdsOf(scores, kept);
    ASSERT_EQ(ids.size(), static_cast<size_t>(top_k));
    EXPECT_EQ(ids.back(), 1999);
    if (top_k > 1) {
      EXPECT_EQ(ids[ids.size() - 2], top_k - 2);
      // The number just below the best token's share.
      const uint64_t best_share = (uint64_t{1} << kWeightBits);
      const double place = 1 - static_cast<double>(best_share) /
                                   static_cast<double>(kept.weight);
      const auto bits = static_cast<uint64_t>(place * 0x1p64 * (1 - 1e-9));
      EXPECT_EQ(DrawToken(scores, kept, scale, bits), top_k - 2);
    }
  }
}

// Sums of the heaviest weights neither overflow nor lose a token.
TEST(KeptTokensTest, TheLargestVocabularyOfEquals) {
  const std::vector<float> scores(kMaxSampledVocab, 1.0f);
  const WeightScale scale = MakeWeightScale(1.0f, 1.0f);
  SamplingRow row;
  const KeptTokens all = KeepTokens(scores, row, scale);
  EXPECT_EQ(all.weight >> kWeightBits, uint64_t{kMaxSampledVocab});
  EXPECT_EQ(DrawToken(scores, all, scale, 0), 0);
  EXPECT_EQ(DrawToken(scores, all, scale, ~uint64_t{0}), kMaxSampledVocab - 1);
  row.top_p = 0.75f;
  const KeptTokens most = KeepTokens(scores, row, scale);
  EXPECT_EQ(most.num_ties, kMaxSampledVocab / 4 * 3);
  EXPECT_EQ(DrawToken(scores, most, scale, ~uint64_t{0}),
            kMaxSampledVocab / 4 * 3 - 1);
}

TEST(KeptTokensDeathTest, NamesWhatIsWrong) {
  const std::vector<float> scores = {1.0f};
  const WeightScale scale = MakeWeightScale(1.0f, 1.0f);
  SamplingRow row;
  row.min_p = 1.5f;
  EXPECT_DEATH(KeepTokens(scores, row, scale), "min_p=1.5");
}

}  // namespace
}  // namespace winnow
