#include "bench/serve/bench_serve_report.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

LoadResult TwoOfThree() {
  LoadResult result;
  for (int i = 0; i < 2; ++i) {
    LoadOutcome outcome;
    outcome.first_token_s = 0.1 + 0.1 * i;
    outcome.gaps_s = {0.2, 0.2};
    outcome.latency_s = 0.6 + 0.1 * i;
    outcome.prompt_tokens = 50;
    outcome.completion_tokens = 3;
    outcome.tokens_told = true;
    result.outcomes.push_back(outcome);
  }
  LoadOutcome failed;
  failed.fault = Fault::kStatus;
  failed.status = 503;
  failed.fault_text = "full";
  result.outcomes.push_back(failed);
  result.seconds = 2;
  return result;
}

ServeReport ReportOf(const BenchServeFlags& flags) {
  return {.flags = flags,
          .model = "m",
          .address = "h:1/v1/completions",
          .backend = "openai",
          .num_prompts = 3,
          .metrics = ParseServeMetrics("ttft,e2el", "90,99.9").value(),
          .figures = MakeLoadFigures(TwoOfThree(), flags.goals),
          .answers = {.checked = 2, .right = 1, .wrong = "request 2: \"x\""}};
}

TEST(BenchServeReportTest, JsonHasTheNamesThatScriptsRead) {
  BenchServeFlags flags;
  flags.goals.ttft_ms = 150;
  const nlohmann::ordered_json said = ServeJson(ReportOf(flags));
  EXPECT_EQ(said["model_id"], "m");
  EXPECT_EQ(said["request_rate"], "inf");
  EXPECT_TRUE(said["max_concurrency"].is_null());
  EXPECT_EQ(said["completed"], 2);
  EXPECT_EQ(said["failed"], 1);
  EXPECT_EQ(said["duration"], 2.0);
  EXPECT_EQ(said["request_throughput"], 1.0);
  EXPECT_EQ(said["request_goodput"], 0.5);
  EXPECT_EQ(said["output_throughput"], 3.0);
  EXPECT_EQ(said["total_token_throughput"], 53.0);
  EXPECT_NEAR(said["mean_ttft_ms"].get<double>(), 150, 1e-9);
  EXPECT_NEAR(said["median_e2el_ms"].get<double>(), 650, 1e-9);
  EXPECT_TRUE(said.contains("p90_ttft_ms"));
  EXPECT_TRUE(said.contains("p99.9_e2el_ms"));
  EXPECT_FALSE(said.contains("mean_itl_ms"));
  EXPECT_EQ(said["answers_right"], 1);
  EXPECT_EQ(said["errors"].size(), 1u);
  EXPECT_EQ(said["errors"][0]["kind"], "status 503");
  EXPECT_EQ(said["errors"][0]["example"], "full");
}

TEST(BenchServeReportTest, TheTableSaysTheSame) {
  BenchServeFlags flags;
  flags.goals.ttft_ms = 150;
  const std::string table = ServeTable(ReportOf(flags));
  for (const char* words :
       {"3 of 3 requests in 2.0 s: 2 answered, 1 failed\n",
        "answers     1 of 2 right; request 2: \"x\"\n",
        "requests/s  1.00, good 0.50 (1 of 3: ttft <= 150 ms)\n",
        "failed      1 x status 503; request 3: full\n",
        "first token (ttft)             150.0     150.0     190.0"}) {
    EXPECT_NE(table.find(words), std::string::npos) << words << "\n" << table;
  }
  EXPECT_EQ(table.find("itl"), std::string::npos);
}

TEST(BenchServeReportTest, NothingAnsweredHasNoFigures) {
  BenchServeFlags flags;
  ServeReport report = ReportOf(flags);
  report.figures = MakeLoadFigures({}, {});
  EXPECT_TRUE(ServeJson(report)["mean_ttft_ms"].is_null());
  EXPECT_TRUE(ServeJson(report)["request_goodput"].is_null());
  EXPECT_EQ(ServeTable(report).find("first token"), std::string::npos);
}

TEST(BenchServeReportTest, EachRequest) {
  const nlohmann::ordered_json requests =
      ServeRequestsJson(TwoOfThree().outcomes);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0]["itl_ms"].size(), 2u);
  EXPECT_TRUE(requests[0]["error"].is_null());
  EXPECT_EQ(requests[2]["error"], "status 503: full");
  EXPECT_TRUE(requests[2]["ttft_ms"].is_null());
}

TEST(BenchServeReportTest, WrongListsAreNamed) {
  EXPECT_FALSE(ParseServeMetrics("ttft,", "99").ok());
  EXPECT_FALSE(ParseServeMetrics("latency", "99").ok());
  for (const char* list : {"", "0", "101", "99,", "x"}) {
    const auto metrics = ParseServeMetrics("ttft", list);
    ASSERT_FALSE(metrics.ok()) << list;
    EXPECT_EQ(metrics.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace winnow
