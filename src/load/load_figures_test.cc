#include "load/load_figures.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

LoadOutcome Answered(double first_s, double latency_s, int64_t tokens) {
  LoadOutcome outcome;
  outcome.first_token_s = first_s;
  outcome.latency_s = latency_s;
  outcome.completion_tokens = tokens;
  outcome.prompt_tokens = 100;
  outcome.tokens_told = true;
  return outcome;
}

LoadOutcome Failed(Fault fault, const std::string& text, int status = 0) {
  LoadOutcome outcome;
  outcome.fault = fault;
  outcome.fault_text = text;
  outcome.status = status;
  outcome.completion_tokens = 50;
  return outcome;
}

TEST(LoadFiguresTest, TpotIsOfTheTokensBehindTheFirst) {
  EXPECT_NEAR(TpotMs(Answered(0.2, 1.2, 11)).value(), 100, 1e-9);
  EXPECT_FALSE(TpotMs(Answered(0.2, 1.2, 1)).has_value());
  LoadOutcome whole = Answered(0, 1, 5);
  whole.first_token_s.reset();
  EXPECT_FALSE(TpotMs(whole).has_value());
}

TEST(LoadFiguresTest, AGoodRequestKeepsAllGoals) {
  const LoadOutcome outcome = Answered(0.2, 1.2, 11);
  EXPECT_TRUE(IsGood(outcome, {.ttft_ms = 200, .tpot_ms = 100.1}));
  EXPECT_FALSE(IsGood(outcome, {.ttft_ms = 199, .tpot_ms = 100.1}));
  EXPECT_FALSE(IsGood(outcome, {.ttft_ms = 200, .tpot_ms = 99}));
  EXPECT_FALSE(IsGood(outcome, {.e2el_ms = 1199}));
  EXPECT_TRUE(IsGood(outcome, {.e2el_ms = 1201}));
  // One token has no time of each later one to break.
  EXPECT_TRUE(IsGood(Answered(0.1, 9, 1), {.tpot_ms = 1}));
  EXPECT_FALSE(IsGood(Failed(Fault::kTimedOut, ""), {.ttft_ms = 1e9}));
}

TEST(LoadFiguresTest, CountsAnswersAlone) {
  LoadResult result{.outcomes = {Answered(0.1, 1.1, 11), Answered(0.3, 0.5, 2),
                                 Failed(Fault::kStatus, "busy", 503),
                                 Failed(Fault::kRefused, "gone"),
                                 Failed(Fault::kStatus, "later", 503),
                                 Failed(Fault::kStatus, "no", 400),
                                 Failed(Fault::kInterrupted, "")},
                    .seconds = 4};
  result.outcomes[0].gaps_s = {0.5, 0.5};
  result.outcomes[1].due_s = 1;
  result.outcomes[1].sent_s = 1.05;
  const LoadFigures figures = MakeLoadFigures(result, {.ttft_ms = 200});
  EXPECT_EQ(figures.sent, 7u);
  EXPECT_EQ(figures.answered, 2u);
  EXPECT_EQ(figures.failed, 4u);
  EXPECT_EQ(figures.interrupted, 1u);
  EXPECT_EQ(figures.good, 1u);
  EXPECT_EQ(figures.completion_tokens, 13);
  EXPECT_EQ(figures.prompt_tokens, 200);
  EXPECT_EQ(figures.late, 1u);
  EXPECT_NEAR(figures.most_late_ms, 50, 1e-9);
  EXPECT_EQ(figures.ttft_ms.size(), 2u);
  EXPECT_NEAR(figures.ttft_ms.Mean(), 200, 1e-9);
  EXPECT_EQ(figures.itl_ms.size(), 2u);
  EXPECT_NEAR(figures.tpot_ms.Percentile(0), 100, 1e-9);
  ASSERT_EQ(figures.faults.size(), 3u);
  EXPECT_EQ(figures.faults[0].name, "status 503");
  EXPECT_EQ(figures.faults[0].count, 2u);
  EXPECT_EQ(figures.faults[0].example, "busy");
  EXPECT_EQ(figures.faults[0].first, 2u);
  EXPECT_EQ(figures.faults[1].name, "refused");
  EXPECT_EQ(figures.faults[2].name, "status 400");
  EXPECT_FALSE(MakeLoadFigures(result, {}).good.has_value());
}

}  // namespace
}  // namespace winnow
