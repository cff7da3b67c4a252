#include "serve/metrics.h"

#include <gtest/gtest.h>

#include "serve/api_key.h"

namespace winnow {
namespace {

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(MetricsTest, AHistogramCountsUpToEachBound) {
  constexpr double kBounds[] = {0.5, 1, 2};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 0.75, 1.5, 9.0}) histogram.Observe(value);
  const std::string text = histogram.Text("h", "Help", "a=\"b\"");
  EXPECT_EQ(text,
            "# HELP h Help\n# TYPE h histogram\n"
            "h_bucket{a=\"b\",le=\"0.5\"} 1\nh_bucket{a=\"b\",le=\"1\"} 2\n"
            "h_bucket{a=\"b\",le=\"2\"} 3\nh_bucket{a=\"b\",le=\"+Inf\"} 4\n"
            "h_sum{a=\"b\"} 11.75\nh_count{a=\"b\"} 4\n");
}

TEST(MetricsTest, CountsWhatEnded) {
  Metrics metrics("a \"b\\");
  Completion completion;
  completion.num_prompt_tokens = 40;
  completion.num_cached_tokens = 32;
  completion.num_generated_tokens = 2;
  completion.num_preemptions = 3;
  metrics.CountStart();
  metrics.CountStart();
  metrics.CountToken(true, std::chrono::milliseconds(30));
  metrics.CountToken(false, std::chrono::milliseconds(3));
  metrics.CountRequest(completion, FinishReason::kLength,
                       std::chrono::milliseconds(40));
  const std::string text = metrics.Text();
  const std::string label = R"({model_name="a \"b\\"} )";
  EXPECT_TRUE(Has(text, "winnow:requests_started_total" + label + "2"));
  EXPECT_TRUE(Has(text, "vllm:prompt_tokens_total" + label + "40")) << text;
  EXPECT_TRUE(Has(text, "vllm:prefix_cache_hits_total" + label + "32"));
  EXPECT_TRUE(Has(text, "vllm:num_preemptions_total" + label + "3"));
  EXPECT_TRUE(Has(text, "vllm:generation_tokens_total" + label + "2"));
  EXPECT_TRUE(
      Has(text, "vllm:time_to_first_token_seconds_count" + label + "1"));
  EXPECT_TRUE(
      Has(text, "vllm:inter_token_latency_seconds_count" + label + "1"));
}

TEST(MetricsTest, TellsHowManyStepsKeptToTheirBound) {
  Metrics metrics("m");
  metrics.SetGauges({.steps = {.with_chunks = {.num_steps = 9, .num_over = 2},
                               .without_chunks = {.num_steps = 70}},
                     .step_time_margin = 1.25});
  const std::string text = metrics.Text();
  for (const char* line :
       {R"(winnow:bounded_steps_total{model_name="m",chunks="yes"} 9)",
        R"(winnow:bounded_steps_total{model_name="m",chunks="no"} 70)",
        R"(winnow:bounded_steps_over_total{model_name="m",chunks="yes"} 2)",
        R"(winnow:bounded_steps_over_total{model_name="m",chunks="no"} 0)",
        R"(winnow:step_time_margin{model_name="m"} 1.25)"}) {
    EXPECT_TRUE(Has(text, line)) << line << "\n" << text;
  }
}

TEST(MetricsTest, TellsWhatLiesOnEachTier) {
  Metrics metrics("m");
  metrics.SetGauges({.num_running = 1,
                     .num_waiting = 0,
                     .kv_usage = 0.5,
                     .device = {.held = 4096, .idle = 1024, .free = 3072},
                     .host = {.held = 1, .idle = 2, .free = 3},
                     .disk = {.held = 5, .idle = 6, .free = 7}});
  const std::string text = metrics.Text();
  const auto line = [](const char* tier, const char* state, int bytes) {
    return fmt::format(
        R"(winnow:kv_tier_bytes{{model_name="m",tier="{}",state="{}"}} {})",
        tier, state, bytes);
  };
  EXPECT_TRUE(Has(text, line("device", "held", 4096))) << text;
  EXPECT_TRUE(Has(text, line("device", "idle", 1024)));
  EXPECT_TRUE(Has(text, line("device", "free", 3072)));
  EXPECT_TRUE(Has(text, line("host", "held", 1)));
  EXPECT_TRUE(Has(text, line("host", "idle", 2)));
  EXPECT_TRUE(Has(text, line("host", "free", 3)));
  EXPECT_TRUE(Has(text, line("disk", "held", 5)));
  EXPECT_TRUE(Has(text, line("disk", "idle", 6)));
  EXPECT_TRUE(Has(text, line("disk", "free", 7)));
}

TEST(ApiKeyTest, OnlyTheWholeKeyOpens) {
  EXPECT_TRUE(HasKey("Bearer secret", "secret"));
  EXPECT_TRUE(HasKey("bearer secret", "secret"));
  for (const char* header :
       {"", "secret", "Bearer ", "Bearer secre", "Bearer secrets",
        "Bearer Secret", "Bearer secretsecret", "Basic secret"}) {
    EXPECT_FALSE(HasKey(header, "secret")) << header;
  }
}

}  // namespace
}  // namespace winnow
