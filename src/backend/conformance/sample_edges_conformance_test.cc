// The conformance suite, part six: Sample at the edges of every parameter, with
// answers found by hand, so that the reference cannot share a mistake.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/conformance/float_extremes.h"
#include "backend/conformance/sample_case.h"
#include "backend/conformance/seeded_test.h"

namespace winnow {
namespace {

class SampleEdgesConformanceTest : public SeededTest {
 protected:
  // The answers to some rows of one vocabulary.
  std::vector<SampleAnswer> Answers(const std::vector<OracleCase>& rows,
                                    int64_t max_top = 0) {
    TestDevice device = Device(2);
    return SampleRows(device, rows, {2, max_top});
  }

  // drawn[id]: some of 400 draws of the row are this token.
  std::vector<bool> Drawn(OracleCase asked) {
    std::vector<OracleCase> rows;
    for (; asked.row.draw < 400; ++asked.row.draw) rows.push_back(asked);
    std::vector<bool> drawn(asked.logits.size(), false);
    for (const SampleAnswer& answer : Answers(rows)) {
      drawn.at(static_cast<size_t>(answer.token_id)) = true;
    }
    return drawn;
  }
};

// min_p is a share of the best token's probability before top-k and top-p,
// and top_p a share of what they leave. Probabilities: 8, 4, 2, 1, 1
// sixteenths.
TEST_P(SampleEdgesConformanceTest, FiltersInTheStatedOrder) {
  const float ln2 = std::log(2.0f);
  OracleCase asked = CaseOf({3 * ln2, 2 * ln2, ln2, 0, 0});
  asked.row.top_p = 0.84f;  // 12/16 is too little, 14/16 enough
  EXPECT_EQ(Drawn(asked), (std::vector<bool>{true, true, true, false, false}));
  asked.row.top_k = 3;  // of the 14 that are left, 12 are enough
  EXPECT_EQ(Drawn(asked), (std::vector<bool>{true, true, false, false, false}));
  asked.row = {};
  asked.row.min_p = 0.2f;  // 1.6: 14 are left, 12 are enough
  asked.row.top_p = 0.84f;
  EXPECT_EQ(Drawn(asked), (std::vector<bool>{true, true, false, false, false}));
  asked.row = {};
  asked.row.top_k = 4;  // ties go to the lowest id
  EXPECT_EQ(Drawn(asked), (std::vector<bool>{true, true, true, true, false}));
}

// A row of 3,000 equal tokens: ties are counted across words, warps and blocks.
TEST_P(SampleEdgesConformanceTest, KeepsTheFirstOfTies) {
  std::vector<OracleCase> rows;
  for (uint64_t draw = 0; draw < 100; ++draw) {
    SamplingRow row = {.seed = 3, .draw = draw};
    row.top_k = 1700;
    rows.push_back(CaseOf(std::vector<float>(3000, 4.0f), row));
    row.top_k = 0;
    row.top_p = 0.25f;
    rows.push_back(CaseOf(std::vector<float>(3000, -4.0f), row));
    row.min_p = 1;
    row.top_p = 1;
    rows.push_back(CaseOf(std::vector<float>(3000, 0.0f), row));
  }
  const auto answers = Answers(rows);
  const int32_t ends[] = {1700, 750, 3000};
  int32_t last[] = {-1, -1, -1};
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_GE(answers[i].token_id, 0);
    EXPECT_LT(answers[i].token_id, ends[i % 3]);
    last[i % 3] = std::max(last[i % 3], answers[i].token_id);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_GT(last[i], ends[i] * 0.9);
}

TEST_P(SampleEdgesConformanceTest, TheBestAloneByManyRoads) {
  std::vector<SamplingRow> roads(6);
  roads[0].temperature = 0;
  roads[1].temperature = 1e-30f;
  roads[2].temperature = 1e-45f;
  roads[3].top_k = 1;
  roads[4].top_p = 0;
  roads[5].min_p = 1;
  std::vector<OracleCase> rows;
  for (SamplingRow& row : roads) {
    for (row.draw = 0; row.draw < 20; ++row.draw) {
      rows.push_back(CaseOf({1, 3, 2.99f, -1}, row));
      rows.push_back(CaseOf({-3e30f, -1e30f, -3e30f, -2e30f}, row));
    }
  }
  // Of equals, what takes one token takes the first.
  for (const size_t i : {0u, 3u, 4u}) {
    for (roads[i].draw = 0; roads[i].draw < 20; ++roads[i].draw) {
      rows.push_back(CaseOf({1, 2, 2, 2}, roads[i]));
    }
  }
  const auto answers = Answers(rows);
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i].token_id, 1) << "row " << i;
  }
}

TEST_P(SampleEdgesConformanceTest, FiltersThatKeepAllChangeNothing) {
  std::vector<OracleCase> rows;
  RandomSource random(41);
  OracleCase asked;
  for (int i = 0; i < 40; ++i) {
    asked.logits.push_back(static_cast<float>(random.Normal()));
  }
  constexpr int kTopKs[] = {0, -1, 40, 41, 1 << 30};
  for (asked.row.draw = 0; asked.row.draw < 100; ++asked.row.draw) {
    for (const int top_k : kTopKs) {
      asked.row.top_k = top_k;
      rows.push_back(asked);
    }
  }
  const auto answers = Answers(rows);
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i].token_id, answers[i / 5 * 5].token_id) << "row " << i;
  }
}

TEST_P(SampleEdgesConformanceTest, AnyTemperatureIsBorne) {
  OracleCase asked = CaseOf({-1e38f, 1e38f, 0, 1});
  asked.row.temperature = std::numeric_limits<float>::max();
  EXPECT_EQ(Drawn(asked), (std::vector<bool>{true, true, true, true}));
  asked.row.top_k = 2;
  EXPECT_EQ(Drawn(asked), (std::vector<bool>{false, true, false, true}));
}

TEST_P(SampleEdgesConformanceTest, MasksLeaveOneOrNone) {
  std::vector<OracleCase> rows;
  for (const float temperature : {0.0f, 1.0f}) {
    for (size_t only = 0; only <= 40; ++only) {
      OracleCase asked = CaseOf(std::vector<float>(40, 1.0f));
      asked.logits[5] = asked.logits[30] = 9;
      asked.row.temperature = temperature;
      asked.row.num_top_logprobs = 2;
      asked.allowed.assign(40, false);
      if (only < 40) asked.allowed[only] = true;
      rows.push_back(asked);
    }
  }
  const auto answers = Answers(rows, 3);
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto only = static_cast<int32_t>(i % 41);
    EXPECT_EQ(answers[i].token_id, only < 40 ? only : -1) << "row " << i;
    EXPECT_EQ(answers[i].logprob == -kInfinity, only == 40) << "row " << i;
    EXPECT_EQ(answers[i].top_ids, (std::vector<int32_t>{5, 30, -1}));
    EXPECT_EQ(answers[i].top_logprobs[2], -kInfinity);
  }
}

TEST_P(SampleEdgesConformanceTest, OddLogits) {
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingRow row = {.temperature = temperature, .num_top_logprobs = 1};
    const auto answers =
        Answers({CaseOf({NAN, 1, -kInfinity}, row),
                 CaseOf({1e30f, kInfinity, 1e30f}, row),
                 CaseOf({NAN, -kInfinity, NAN}, row),
                 CaseOf({-kInfinity, -kInfinity, -3.4e38f}, row)},
                1);
    const int32_t ids[] = {1, 1, -1, 2};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(answers[i].token_id, ids[i]) << "row " << i;
      EXPECT_EQ(answers[i].logprob, i == 2 ? -kInfinity : 0) << "row " << i;
      EXPECT_EQ(answers[i].top_ids[0], ids[i]) << "row " << i;
    }
  }
  const auto ties = Answers({CaseOf({5, kInfinity, kInfinity})});
  EXPECT_NEAR(ties[0].logprob, -std::log(2.0), 1e-6);
  EXPECT_EQ(Answers({CaseOf({3})})[0].token_id, 0);
  EXPECT_EQ(Answers({CaseOf({3})})[0].logprob, 0);
  const auto zeros = Answers({CaseOf({-0.0f, 0.0f}, {.temperature = 0})});
  EXPECT_EQ(zeros[0].token_id, 0);
}

// What changes a score excludes it where it leads out of the numbers.
TEST_P(SampleEdgesConformanceTest, ChangedScoresStayOrdered) {
  OracleCase asked = CaseOf({1, 2, 3, 4}, {.temperature = 0});
  asked.bias = {{3, -kInfinity}, {2, NAN}};
  OracleCase overflow = CaseOf({1, 2, 3e38f, 0}, {.temperature = 0});
  overflow.row.repetition_penalty = 0.1f;
  overflow.seen = {{2, 0}};
  overflow.bias = {{0, kInfinity}};
  OracleCase lowest = CaseOf({-3e38f, -1, -2, -3}, {.temperature = 0});
  lowest.row.repetition_penalty = 10;
  lowest.row.presence_penalty = 9;
  lowest.seen = {{0, 0}, {1, 1}, {2, 0}};
  const auto answers = Answers({asked, overflow, lowest});
  EXPECT_EQ(answers[0].token_id, 1);
  EXPECT_EQ(answers[1].token_id, 0);  // both the highest score: the first
  EXPECT_EQ(answers[2].token_id, 3);  // -3 against -19 and -20
}

TEST_P(SampleEdgesConformanceTest, PenaltiesByHand) {
  OracleCase asked = CaseOf({4, 3.5f, 3, -1}, {.temperature = 0});
  asked.seen = {{1, 2}, {0, 0}};
  std::vector<OracleCase> rows(4, asked);
  rows[1].row.repetition_penalty = 1.25f;  // 3.2, 2.8, 3, -1
  rows[2].row.repetition_penalty = 1.5f;   // 2.67, 2.33, 3, -1
  rows[3].seen = {{0, 3}, {1, 1}};
  rows[3].row.frequency_penalty = 0.25f;  // 3.25, 3.25
  rows[3].row.presence_penalty = 0.5f;    // 2.75, 2.75, 3
  const auto answers = Answers(rows);
  EXPECT_EQ(answers[0].token_id, 0);
  EXPECT_EQ(answers[1].token_id, 0);
  EXPECT_EQ(answers[2].token_id, 2);
  EXPECT_EQ(answers[3].token_id, 2);
}

TEST_P(SampleEdgesConformanceTest, LogprobsAreTheModelsOwn) {
  OracleCase asked = CaseOf({1, 2, 3, 4}, {.temperature = 0});
  asked.row.repetition_penalty = 3;
  asked.row.num_top_logprobs = 3;
  asked.seen = {{3, 1}, {2, 1}};
  OracleCase biased = asked;
  biased.bias = {{0, 1e30f}, {1, 1e31f}};
  biased.allowed = {true, false, true, true};
  const std::vector<double> exact = OracleLogprobs(asked.logits);
  const auto answers = Answers({biased, asked}, 4);
  EXPECT_EQ(answers[0].token_id, 0);
  EXPECT_NEAR(answers[0].logprob, exact[0], 1e-6);
  EXPECT_EQ(answers[1].token_id, 1);  // 2 against 4/3
  EXPECT_NEAR(answers[1].logprob, exact[1], 1e-6);
  for (const SampleAnswer& answer : answers) {
    EXPECT_EQ(answer.top_ids, (std::vector<int32_t>{3, 2, 1, -1}));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(answer.top_logprobs[i], exact[3 - i], 1e-6);
    }
    EXPECT_EQ(answer.top_logprobs[3], -kInfinity);
  }
}

TEST_P(SampleEdgesConformanceTest, TopLogprobsMayNameEveryToken) {
  const SamplingRow row = {.temperature = 0, .num_top_logprobs = 50};
  OracleCase asked = CaseOf(std::vector<float>(40, 0.0f), row);
  for (size_t i = 0; i < 40; ++i) {
    asked.logits[i] = static_cast<float>(i * 7 % 40 / 2);
  }
  asked.logits[11] = -kInfinity;
  const auto answer = Answers({asked}, 50)[0];
  for (size_t i = 0; i + 1 < 39; ++i) {
    const auto logit = [&](size_t at) {
      return asked.logits.at(static_cast<size_t>(answer.top_ids[at]));
    };
    ASSERT_TRUE(
        logit(i) > logit(i + 1) ||
        (logit(i) == logit(i + 1) && answer.top_ids[i] < answer.top_ids[i + 1]))
        << "place " << i;
  }
  for (size_t i = 39; i < 50; ++i) {
    EXPECT_EQ(answer.top_ids[i], -1);
    EXPECT_EQ(answer.top_logprobs[i], -kInfinity);
  }
}

TEST_P(SampleEdgesConformanceTest, TakesNoRows) {
  TestDevice device = Device(1);
  SampleArgs args;
  args.logits = device.Output(Dtype::kFloat32, {0, 10});
  args.token_ids = device.Output(Dtype::kInt32, {0});
  args.logprobs = device.Output(Dtype::kFloat32, {0});
  device.backend().Sample(device.queue(), args);
  EXPECT_TRUE(device.Download(args.token_ids).values.empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, SampleEdgesConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
