#include "backend/cpu/sample/sample_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/conformance/float_extremes.h"
#include "backend/conformance/sampling_oracle.h"
#include "backend/cpu/sample/drawn_row.h"
#include "backend/cpu/sample/philox.h"

namespace winnow {
namespace {

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

TEST(SampleRowTest, ZerosAreEqual) {
  OracleCase zeros = Row({-0.0f, 0.0f});
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
    EXPECT_EQ(Draw(Row({kNotANumber, 1, -kInfinity}, row)).token_id, 1);
    EXPECT_EQ(Draw(Row({1e30f, kInfinity, 1e30f}, row)).token_id, 1);
    EXPECT_EQ(Draw(Row({kNotANumber, -kInfinity, kNotANumber}, row)).token_id,
              -1);
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
