#include "backend/cpu/sample_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/philox.h"
#include "backend/cpu/sampling_oracle.h"

namespace winnow {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Drawn {
  int32_t token_id;
  float logprob;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
};

Drawn Draw(const OracleCase& asked, size_t max_top = 0) {
  std::vector<float> logits = asked.logits;
  // What was there before must not show.
  std::vector<float> originals(logits.size(), kNan);
  std::vector<uint32_t> mask;
  for (size_t i = 0; i < asked.allowed.size(); ++i) {
    if (i % 32 == 0) mask.push_back(0);
    mask.back() |= uint32_t{asked.allowed[i]} << i % 32;
  }
  Drawn drawn;
  drawn.top_ids.assign(max_top, 77);
  drawn.top_logprobs.assign(max_top, 77.0f);
  const SampledToken token =
      SampleRow({.logits = logits,
                 .row = asked.row,
                 .seen = asked.seen,
                 .bias = asked.bias,
                 .mask = mask.empty() ? nullptr : mask.data(),
                 .top_ids = drawn.top_ids,
                 .top_logprobs = drawn.top_logprobs,
                 .originals = originals});
  drawn.token_id = token.token_id;
  drawn.logprob = token.logprob;
  return drawn;
}

OracleCase Row(std::vector<float> logits, SamplingRow row = {}) {
  OracleCase asked;
  asked.logits = std::move(logits);
  asked.row = row;
  return asked;
}

// A row with everything on: ties, extremes, lists, a mask.
OracleCase RandomCase(std::mt19937& random) {
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
    if (random() % 50 == 0) logit = random() % 2 == 0 ? -kInfinity : kNan;
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

TEST(SampleRowTest, DrawsWhatTheOracleDraws) {
  std::mt19937 random(31);
  int num_close = 0;
  int num_none = 0;
  constexpr int kCases = 2000;
  for (int i = 0; i < kCases; ++i) {
    const OracleCase asked = RandomCase(random);
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

// Pearson's statistic of `num_draws` draws against the oracle's probabilities,
// tokens expected less than five times put together; expects it below the
// 0.999 quantile (Wilson and Hilferty's approximation, PNAS 1931).
void ExpectDistribution(OracleCase asked, int num_draws) {
  const OracleAnswer answer = AskOracle(asked);
  ASSERT_EQ(answer.min_kept, answer.max_kept);
  const auto probabilities = answer.Probabilities(answer.min_kept);
  std::vector<int> counts(asked.logits.size(), 0);
  for (int i = 0; i < num_draws; ++i) {
    asked.row.draw = static_cast<uint64_t>(i);
    ++counts[static_cast<size_t>(Draw(asked).token_id)];
  }
  double statistic = 0;
  double rare_expected = 0;
  int rare_count = 0;
  int num_cells = 0;
  const auto add_cell = [&](double expected, int count) {
    statistic += (count - expected) * (count - expected) / expected;
    ++num_cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * num_draws;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was not kept";
    } else if (expected < 5) {
      rare_expected += expected;
      rare_count += counts[i];
    } else {
      add_cell(expected, counts[i]);
    }
  }
  if (rare_expected > 0) add_cell(rare_expected, rare_count);
  ASSERT_GE(num_cells, 2);
  const double degrees = num_cells - 1;
  const double third = 2 / (9 * degrees);
  const double quantile =
      degrees * std::pow(1 - third + 3.09 * std::sqrt(third), 3);
  EXPECT_LT(statistic, quantile) << "degrees of freedom " << degrees;
}

OracleCase DistributionCase() {
  OracleCase asked;
  std::mt19937 random(41);
  std::normal_distribution<float> normal(0, 1.5f);
  for (int i = 0; i < 40; ++i) asked.logits.push_back(normal(random));
  asked.logits[5] = asked.logits[30] = 2.5f;
  asked.row.seed = 1234567890123;
  return asked;
}

constexpr int kDraws = 20000;

TEST(SampleRowTest, DistributionOfTheModel) {
  ExpectDistribution(DistributionCase(), kDraws);
}

TEST(SampleRowTest, DistributionByTemperature) {
  for (const float temperature : {0.3f, 0.8f, 2.0f, 50.0f}) {
    OracleCase asked = DistributionCase();
    asked.row.temperature = temperature;
    ExpectDistribution(asked, kDraws);
  }
}

TEST(SampleRowTest, DistributionOfEachFilter) {
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

TEST(SampleRowTest, DistributionOfAllTogether) {
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

// min_p is a share of the best token's probability before top-k and top-p,
// and top_p a share of what they leave: by hand, so that the oracle cannot
// share a mistake of order. Probabilities: 8, 4, 2, 1, 1 sixteenths.
TEST(SampleRowTest, FiltersInTheStatedOrder) {
  const float ln2 = std::log(2.0f);
  OracleCase asked = Row({3 * ln2, 2 * ln2, ln2, 0, 0});
  const auto kept = [&asked] {
    std::vector<bool> drawn(5, false);
    for (uint64_t draw = 0; draw < 400; ++draw) {
      asked.row.draw = draw;
      drawn[static_cast<size_t>(Draw(asked).token_id)] = true;
    }
    return drawn;
  };
  asked.row.top_p = 0.84f;  // 12/16 is too little, 14/16 enough
  EXPECT_EQ(kept(), (std::vector<bool>{true, true, true, false, false}));
  asked.row.top_k = 3;  // of the 14 that are left, 12 are enough
  EXPECT_EQ(kept(), (std::vector<bool>{true, true, false, false, false}));
  asked.row = {};
  asked.row.min_p = 0.2f;  // 1.6: 14 are left, 12 are enough
  asked.row.top_p = 0.84f;
  EXPECT_EQ(kept(), (std::vector<bool>{true, true, false, false, false}));
  asked.row = {};
  asked.row.top_k = 4;  // ties go to the lowest id
  EXPECT_EQ(kept(), (std::vector<bool>{true, true, true, true, false}));
}

TEST(SampleRowTest, TheBestAloneByManyRoads) {
  std::vector<SamplingRow> rows(6);
  rows[0].temperature = 0;
  rows[1].temperature = 1e-30f;
  rows[2].temperature = 1e-45f;
  rows[3].top_k = 1;
  rows[4].top_p = 0;
  rows[5].min_p = 1;
  for (SamplingRow& row : rows) {
    for (row.draw = 0; row.draw < 50; ++row.draw) {
      EXPECT_EQ(Draw(Row({1, 3, 2.99f, -1}, row)).token_id, 1);
      EXPECT_EQ(Draw(Row({-1e30f, -3e30f, -2e30f}, row)).token_id, 0);
    }
  }
  // Of equals, what takes one token takes the first.
  for (const size_t i : {0u, 3u, 4u}) {
    for (uint64_t draw = 0; draw < 50; ++draw) {
      rows[i].draw = draw;
      EXPECT_EQ(Draw(Row({1, 2, 2, 2}, rows[i])).token_id, 1);
    }
  }
}

TEST(SampleRowTest, FiltersThatKeepAllChangeNothing) {
  for (uint64_t draw = 0; draw < 200; ++draw) {
    OracleCase asked = DistributionCase();
    asked.row.draw = draw;
    const int32_t expected = Draw(asked).token_id;
    asked.row.top_p = 1;
    asked.row.min_p = 0;
    for (const int top_k : {-1, 0, 40, 41, 1 << 30}) {
      asked.row.top_k = top_k;
      EXPECT_EQ(Draw(asked).token_id, expected);
    }
  }
}

TEST(SampleRowTest, EqualLogitsAreEqual) {
  ExpectDistribution(Row(std::vector<float>(40, -7.5f)), kDraws);
  ExpectDistribution(Row(std::vector<float>(20, 1e30f)), kDraws);
  OracleCase zeros = Row({0.0f, -0.0f, -0.0f});
  ExpectDistribution(zeros, kDraws);
  zeros.logits = {-0.0f, 0.0f};
  zeros.row.temperature = 0;
  EXPECT_EQ(Draw(zeros).token_id, 0);
}

TEST(SampleRowTest, MasksLeaveOneOrNone) {
  OracleCase asked = DistributionCase();
  asked.logits[5] = asked.logits[30] = 9;
  for (const float temperature : {0.0f, 1.0f}) {
    asked.row.temperature = temperature;
    asked.row.num_top_logprobs = 2;
    for (size_t only = 0; only < 40; ++only) {
      asked.allowed.assign(40, false);
      asked.allowed[only] = true;
      EXPECT_EQ(Draw(asked, 2).token_id, static_cast<int32_t>(only));
    }
    asked.allowed.assign(40, false);
    const Drawn none = Draw(asked, 2);
    EXPECT_EQ(none.token_id, -1);
    EXPECT_EQ(none.logprob, -kInfinity);
    EXPECT_EQ(none.top_ids, (std::vector<int32_t>{5, 30}));
  }
}

TEST(SampleRowTest, OddLogits) {
  SamplingRow greedy;
  greedy.temperature = 0;
  for (const SamplingRow& row : {SamplingRow(), greedy}) {
    EXPECT_EQ(Draw(Row({kNan, 1, -kInfinity}, row)).token_id, 1);
    EXPECT_EQ(Draw(Row({1e30f, kInfinity, 1e30f}, row)).token_id, 1);
    EXPECT_EQ(Draw(Row({kNan, -kInfinity, kNan}, row)).token_id, -1);
    EXPECT_EQ(Draw(Row({3.0f}, row)).token_id, 0);
    EXPECT_EQ(Draw(Row({3.0f}, row)).logprob, 0.0f);
  }
  const Drawn drawn = Draw(Row({kInfinity, kInfinity, 5}));
  EXPECT_NEAR(drawn.logprob, -std::log(2.0f), 1e-6);
}

TEST(SampleRowTest, LogprobsAreTheModelsOwn) {
  OracleCase asked = Row({1, 2, 3, 4});
  asked.row.temperature = 0;
  asked.row.repetition_penalty = 3;
  asked.row.num_top_logprobs = 3;
  asked.seen = {{3, 1}, {2, 1}};
  asked.bias = {{0, 1e30f}, {1, 1e31f}};
  asked.allowed = {true, false, true, true};
  const std::vector<double> exact = OracleLogprobs(asked.logits);
  const Drawn drawn = Draw(asked, 4);
  EXPECT_EQ(drawn.token_id, 0);
  EXPECT_NEAR(drawn.logprob, exact[0], 1e-6);
  EXPECT_EQ(drawn.top_ids, (std::vector<int32_t>{3, 2, 1, -1}));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(drawn.top_logprobs[i], exact[3 - i], 1e-6);
  }
  EXPECT_EQ(drawn.top_logprobs[3], -kInfinity);
  asked.bias.clear();
  EXPECT_EQ(Draw(asked, 4).token_id, 3);
  EXPECT_NEAR(Draw(asked, 4).logprob, exact[3], 1e-6);
}

TEST(SampleRowTest, SeedsReproduceAndDrawsDiffer) {
  OracleCase asked = Row(std::vector<float>(1000, 0.0f));
  std::vector<std::vector<int32_t>> draws;
  for (const uint64_t seed : {1ull, 2ull, 1ull, 1ull << 32}) {
    asked.row.seed = seed;
    draws.emplace_back();
    for (asked.row.draw = 0; asked.row.draw < 100; ++asked.row.draw) {
      draws.back().push_back(Draw(asked).token_id);
    }
  }
  EXPECT_EQ(draws[0], draws[2]);
  const auto num_same = [](const auto& a, const auto& b, size_t shift) {
    int count = 0;
    for (size_t i = shift; i < a.size(); ++i) count += a[i - shift] == b[i];
    return count;
  };
  EXPECT_LE(num_same(draws[0], draws[1], 0), 5);
  EXPECT_LE(num_same(draws[0], draws[3], 0), 5);
  EXPECT_LE(num_same(draws[0], draws[0], 1), 5);
}

// The draw of (seed 7, draw 3) is what docs and other backends can rely on.
TEST(SampleRowTest, OneUniformNumberByTheStatedGenerator) {
  SamplingRow row;
  row.seed = 7;
  row.draw = 3;
  const double place = static_cast<double>(RandomBits(7, 3)) * 0x1p-64;
  EXPECT_EQ(Draw(Row(std::vector<float>(1000, 2.0f), row)).token_id,
            static_cast<int32_t>(place * 1000));
}

TEST(SampleRowDeathTest, NamesWhatIsWrong) {
  SamplingRow row;
  row.temperature = -1;
  EXPECT_DEATH(Draw(Row({1}, row)), "temperature=-1");
  row = {};
  row.num_top_logprobs = 3;
  EXPECT_DEATH(Draw(Row({1}, row), 2), "num_top_logprobs=3 room for 2");
  OracleCase asked = Row({1, 2});
  asked.bias = {{2, 1.0f}};
  EXPECT_DEATH(Draw(asked), "token_id=2 vocab=2");
}

}  // namespace
}  // namespace winnow
