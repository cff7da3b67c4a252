// What SampleRow draws, against the oracle: draw by draw, and in the long run.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backend/conformance/float_extremes.h"
#include "backend/conformance/sampling_oracle.h"
#include "backend/cpu/sample/drawn_row.h"
#include "backend/cpu/sample/philox.h"

namespace winnow {
namespace {

// A row with everything on: ties, extremes, lists, a mask.
OracleCase RandomFullCase(std::mt19937& random) {
  const size_t sizes[] = {1, 2, 33, 200, 1500};
  const float spreads[] = {0.1f, 2, 8};
  const size_t size = sizes[random() % 5];
  std::normal_distribution<float> normal(0, spreads[random() % 3]);
  std::uniform_real_distribution<float> share(0, 1);
  OracleCase asked;
  const bool coarse = random() % 3 == 0;
  const bool masked = random() % 2 == 0;
  const bool lists = random() % 2 == 0;
  for (size_t i = 0; i < size; ++i) {
    float logit = normal(random);
    if (coarse) logit = std::round(logit);
    if (random() % 50 == 0)
      logit = random() % 2 == 0 ? -kInfinity : kNotANumber;
    asked.logits.push_back(logit);
    if (masked) asked.allowed.push_back(random() % 4 != 0);
    const auto id = static_cast<int32_t>(size - 1 - i);  // in any order
    if (lists && random() % 5 == 0) {
      asked.seen.push_back({id, static_cast<int32_t>(random() % 3)});
    }
    if (lists && random() % 7 == 0) {
      asked.bias.push_back({id, 4 * normal(random)});
    }
  }
  SamplingRow& row = asked.row;
  row.temperature = random() % 5 == 0 ? 0.0f : 0.05f + 2 * share(random);
  if (random() % 2 == 0) row.top_p = share(random);
  if (random() % 3 == 0) row.min_p = 0.3f * share(random);
  if (random() % 2 == 0) row.top_k = 1 + static_cast<int>(random() % 60);
  row.repetition_penalty = 0.7f + share(random);
  row.presence_penalty = share(random) - 0.3f;
  row.frequency_penalty = share(random) - 0.3f;
  row.seed = random();
  row.draw = random();
  return asked;
}

// Whether `token_id` is what the oracle draws with this number of kept tokens;
// *is_close where the number falls within 1e-5 of another token's share.
bool IsOracles(const OracleCase& asked, const OracleAnswer& answer,
               size_t num_kept, int32_t token_id, bool* is_close) {
  const std::vector<double> probabilities = answer.Probabilities(num_kept);
  const double place = std::ldexp(
      static_cast<double>(RandomBits(asked.row.seed, asked.row.draw)), -64);
  double before = 0;
  for (int32_t id = 0; id < token_id; ++id) {
    before += probabilities[static_cast<size_t>(id)];
  }
  const double own = probabilities[static_cast<size_t>(token_id)];
  constexpr double kSlack = 1e-5;
  *is_close = place < before + kSlack || place > before + own - kSlack;
  return own > 0 && place > before - kSlack && place < before + own + kSlack;
}

TEST(SampleDistributionTest, DrawsWhatTheOracleDraws) {
  std::mt19937 random(31);
  int num_close = 0;
  int num_none = 0;
  constexpr int kCases = 2000;
  for (int i = 0; i < kCases; ++i) {
    const OracleCase asked = RandomFullCase(random);
    const OracleAnswer answer = AskOracle(asked);
    const Drawn drawn = Draw(asked);
    if (answer.order.empty()) {
      ASSERT_EQ(drawn.token_id, -1) << "case " << i;
      ++num_none;
      continue;
    }
    ASSERT_GE(drawn.token_id, 0) << "case " << i;
    const auto id = static_cast<size_t>(drawn.token_id);
    const double logprob = OracleLogprobs(asked.logits)[id];
    ASSERT_NEAR(drawn.logprob, logprob, 2e-6 + 1.2e-7 * std::abs(logprob));
    if (asked.row.temperature == 0) {
      ASSERT_EQ(drawn.token_id, answer.order[0]) << "case " << i;
      continue;
    }
    bool found = false;
    bool is_close = false;
    for (size_t n = answer.min_kept; n <= answer.max_kept && !found; ++n) {
      found = IsOracles(asked, answer, n, drawn.token_id, &is_close);
    }
    ASSERT_TRUE(found) << "case " << i << " token " << drawn.token_id;
    num_close += is_close || answer.min_kept != answer.max_kept;
  }
  EXPECT_LE(num_close, kCases / 20);  // the others leave no choice
  EXPECT_LE(num_none, kCases / 5);
}

void ExpectDistribution(OracleCase asked, int num_draws) {
  const OracleAnswer answer = AskOracle(asked);
  ASSERT_EQ(answer.min_kept, answer.max_kept);
  std::vector<int> counts(asked.logits.size(), 0);
  for (int i = 0; i < num_draws; ++i) {
    asked.row.draw = static_cast<uint64_t>(i);
    ++counts[static_cast<size_t>(Draw(asked).token_id)];
  }
  ExpectDrawnAs(answer.Probabilities(answer.min_kept), counts);
}

constexpr int kDraws = 20000;

TEST(SampleDistributionTest, OfTheModel) {
  ExpectDistribution(DistributionCase(), kDraws);
}

TEST(SampleDistributionTest, ByTemperature) {
  for (const float temperature : {0.3f, 0.8f, 2.0f, 50.0f}) {
    OracleCase asked = DistributionCase();
    asked.row.temperature = temperature;
    ExpectDistribution(asked, kDraws);
  }
}

TEST(SampleDistributionTest, OfEachFilter) {
  OracleCase top_k = DistributionCase();
  top_k.row.top_k = 7;
  ExpectDistribution(top_k, kDraws);
  OracleCase top_p = DistributionCase();
  top_p.row.top_p = 0.8f;
  ExpectDistribution(top_p, kDraws);
  OracleCase min_p = DistributionCase();
  min_p.row.min_p = 0.1f;
  ExpectDistribution(min_p, kDraws);
}

TEST(SampleDistributionTest, OfAllTogether) {
  OracleCase asked = DistributionCase();
  asked.row.temperature = 1.4f;
  asked.row.min_p = 0.02f;
  asked.row.top_k = 20;
  asked.row.top_p = 0.9f;
  asked.row.repetition_penalty = 1.3f;
  asked.row.presence_penalty = 0.4f;
  asked.row.frequency_penalty = 0.2f;
  asked.seen = {{30, 2}, {1, 0}, {8, 1}, {5, 0}};
  asked.bias = {{9, 2.0f}, {30, -0.5f}, {12, -100.0f}};
  ExpectDistribution(asked, kDraws);
  asked.allowed.assign(40, true);
  for (const size_t id : {0u, 5u, 9u, 31u, 32u}) asked.allowed[id] = false;
  ExpectDistribution(asked, kDraws);
}

TEST(SampleDistributionTest, EqualLogitsAreEqual) {
  ExpectDistribution(Row(std::vector<float>(40, -7.5f)), kDraws);
  ExpectDistribution(Row(std::vector<float>(20, 1e30f)), kDraws);
  ExpectDistribution(Row({0.0f, -0.0f, -0.0f}), kDraws);
}

}  // namespace
}  // namespace winnow
