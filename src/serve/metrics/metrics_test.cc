#include "serve/metrics/metrics.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "serve/http/api_key.h"
#include "serve/loop/token_feed.h"

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

TEST(MetricsTest, FamiliesHaveTheirLabels) {
  MetricsText text("a \"b\\\n");
  text.AddGauge("vllm:a", "Help", 1);
  text.AddCounter("winnow:b", "Help", 2.5);
  text.Begin("c", "Help", "counter");
  text.AddSample("d=\"e\"", 3);
  EXPECT_EQ(text.Take(),
            "# HELP vllm:a Help\n# TYPE vllm:a gauge\n"
            "vllm:a{model_name=\"a \\\"b\\\\\\n\",engine=\"0\"} 1\n"
            "# HELP winnow:b Help\n# TYPE winnow:b counter\n"
            "winnow:b{model_name=\"a \\\"b\\\\\\n\"} 2.5\n"
            "# HELP c Help\n# TYPE c counter\nc{d=\"e\"} 3\n");
}

Completion SomeCompletion() {
  Completion completion;
  completion.num_prompt_tokens = 40;
  completion.num_cached_tokens = 32;
  completion.num_generated_tokens = 3;
  completion.num_preemptions = 2;
  completion.timing = {.queue_ms = 500,
                       .prefill_ms = 250,
                       .first_token_ms = 750,
                       .decode_ms = 1000};
  return completion;
}

void ExpectLines(const Metrics& metrics,
                 const std::vector<std::string>& lines) {
  const std::string text = metrics.Text();
  for (const std::string& line : lines) {
    EXPECT_TRUE(Has(text, line)) << line << "\n" << text;
  }
}

TEST(MetricsTest, CountsWhatEnded) {
  Metrics metrics("m");
  metrics.CountStart();
  metrics.CountStart();
  metrics.CountToken(true, std::chrono::milliseconds(30));
  metrics.CountToken(false, std::chrono::milliseconds(3));
  const Completion completion = SomeCompletion();
  metrics.CountRequest({.completion = completion,
                        .reason = FinishReason::kLength,
                        .life = std::chrono::seconds(2),
                        .max_tokens = 16});
  // That never got a token.
  Completion cancelled;
  cancelled.num_prompt_tokens = 7;
  metrics.CountRequest({.completion = cancelled,
                        .reason = FinishReason::kCancelled,
                        .life = std::chrono::seconds(1),
                        .max_tokens = 4});
  metrics.CountPrompt(2, 9);
  metrics.CountStep(70);
  const std::string vllm = R"({model_name="m",engine="0"} )";
  const std::string reason = R"({model_name="m",engine="0",finished_reason=)";
  ExpectLines(metrics,
              {R"(winnow:requests_started_total{model_name="m"} 2)",
               "vllm:generation_tokens_total" + vllm + "2",
               "vllm:time_to_first_token_seconds_count" + vllm + "1",
               "vllm:inter_token_latency_seconds_count" + vllm + "1",
               "vllm:inter_token_latency_seconds_sum" + vllm + "0.003",
               "vllm:time_per_output_token_seconds_sum" + vllm + "0.003",
               "vllm:request_success_total" + reason + "\"length\"} 1",
               "vllm:request_success_total" + reason + "\"abort\"} 1",
               "vllm:e2e_request_latency_seconds_sum" + vllm + "3",
               "vllm:request_queue_time_seconds_count" + vllm + "1",
               "vllm:request_prefill_time_seconds_sum" + vllm + "0.25",
               "vllm:request_decode_time_seconds_sum" + vllm + "1",
               "vllm:request_inference_time_seconds_sum" + vllm + "1.25",
               "vllm:request_inference_time_seconds_count" + vllm + "1",
               "vllm:request_time_per_output_token_seconds_sum" + vllm + "0.5",
               "vllm:request_prompt_tokens_sum" + vllm + "47",
               "vllm:request_prompt_tokens_count" + vllm + "2",
               "vllm:request_generation_tokens_sum" + vllm + "3",
               "vllm:request_params_max_tokens_sum" + vllm + "20",
               "vllm:request_num_preemptions_sum" + vllm + "2",
               "vllm:request_prefill_kv_computed_tokens_sum" + vllm + "8",
               "vllm:request_prefill_kv_computed_tokens_count" + vllm + "1",
               "vllm:request_params_n_sum" + vllm + "2",
               "vllm:request_max_num_generation_tokens_sum" + vllm + "9",
               "vllm:iteration_tokens_total_sum" + vllm + "70"});
}

TEST(MetricsTest, TokensOfPromptsCountAsTheyAreRead) {
  Metrics metrics("m");
  TokenFeed feed(metrics);
  const auto expect = [&metrics](int num_tokens) {
    ExpectLines(metrics, {fmt::format("vllm:prompt_tokens_total{{model_name="
                                      "\"m\",engine=\"0\"}} {}",
                                      num_tokens)});
  };
  feed.OnPrefill(32, 100);
  expect(32);
  feed.OnPrefill(100, 100);
  expect(100);
}

// As usage counts them, whichever of its answers comes first.
TEST(MetricsTest, TokensOfAPromptCountOnceHoweverManyAnswersItGets) {
  Metrics metrics("m");
  const auto answers =
      std::make_shared<PromptAnswers>(PromptAnswers{.n = 2, .num_left = 2});
  TokenFeed first(metrics, {.answers = answers});
  TokenFeed second(metrics, {.answers = answers});
  const auto expect = [&metrics](int num_tokens) {
    ExpectLines(metrics, {fmt::format("vllm:prompt_tokens_total{{model_name="
                                      "\"m\",engine=\"0\"}} {}",
                                      num_tokens)});
  };
  first.OnPrefill(32, 100);
  expect(32);
  second.OnPrefill(64, 100);
  expect(64);
  first.OnPrefill(48, 100);
  first.OnPrefill(64, 100);
  expect(64);
  second.OnPrefill(100, 100);
  first.OnPrefill(100, 100);
  expect(100);
  TokenFeed other(metrics);
  other.OnPrefill(10, 10);
  expect(110);
}

TEST(MetricsTest, WhoHasAnAnswerFindsItCounted) {
  Metrics metrics("m");
  TokenFeed feed(metrics);
  EngineCounters counters;
  counters.num_preemptions = 5;
  feed.Accept([&] { metrics.SetCounters(counters); });
  feed.Take();
  std::string text;
  feed.SetWake([&] { text = metrics.Text(); });
  feed.OnFinish({});
  const std::string labels = R"({model_name="m",engine="0"} )";
  EXPECT_TRUE(Has(text, "vllm:num_preemptions_total" + labels + "5")) << text;
  EXPECT_TRUE(Has(text, "vllm:request_params_n_count" + labels + "1")) << text;
}

// Three answers to a prompt are one, the longest counts.
TEST(MetricsTest, AnswersToOnePromptCountTogether) {
  Metrics metrics("m");
  const auto answers =
      std::make_shared<PromptAnswers>(PromptAnswers{.n = 3, .num_left = 3});
  const std::string labels = R"({model_name="m",engine="0"} )";
  for (const int num_tokens : {4, 9, 2}) {
    ExpectLines(metrics, {"vllm:request_params_n_count" + labels + "0"});
    TokenFeed feed(metrics, {.max_tokens = 10, .answers = answers});
    Completion completion;
    completion.num_generated_tokens = num_tokens;
    feed.OnFinish(completion);
  }
  ExpectLines(metrics,
              {"vllm:request_params_n_count" + labels + "1",
               "vllm:request_params_n_sum" + labels + "3",
               "vllm:request_max_num_generation_tokens_sum" + labels + "9",
               "vllm:request_params_max_tokens_sum" + labels + "30"});
}

TEST(MetricsTest, AnswersCountByRouteAndAClientsWordsMakeNoSeries) {
  Metrics metrics("m");
  metrics.CountAnswer({"GET", "/v1/models/{model}", 200});
  metrics.CountAnswer({"GET", "/v1/models/{model}", 206});
  metrics.CountAnswer({"BREW", "", 404});
  metrics.CountAnswer({"STEEP", "", 405});
  ExpectLines(
      metrics,
      {R"(http_requests_total{handler="/v1/models/{model}",method="GET",)"
       R"(status="2xx"} 2)",
       R"(http_requests_total{handler="none",method="other",status="4xx"} 2)",
       R"(winnow:http_answers_total{model_name="m",status="4xx"} 2)"});
}

TEST(MetricsTest, TellsWhatTheEngineHasDone) {
  Metrics metrics("m");
  metrics.SetGauges({.num_device_pages = 10,
                     .num_host_pages = 4,
                     .kv_dtype = "bfloat16",
                     .engine = {.num_preemptions = 5,
                                .num_looked_up_tokens = 100,
                                .num_found_tokens = 64,
                                .brought = {.picks = 9, .hits = 7, .misses = 2},
                                .traffic = {.device_to_host_bytes = 11,
                                            .host_to_device_bytes = 12,
                                            .host_to_disk_bytes = 13,
                                            .disk_to_host_bytes = 14},
                                .num_restores = 6,
                                .stall_ms = 1500}});
  const std::string vllm = R"({model_name="m",engine="0"} )";
  const std::string own = R"({model_name="m"} )";
  const auto moved = [](const char* direction) {
    return fmt::format(
        R"(winnow:kv_bytes_total{{model_name="m",direction="{}"}} )",
        direction);
  };
  ExpectLines(
      metrics,
      {"vllm:num_preemptions_total" + vllm + "5",
       "vllm:prefix_cache_queries_total" + vllm + "100",
       "vllm:prefix_cache_hits_total" + vllm + "64",
       "winnow:kv_hits_total" + own + "7", "winnow:kv_misses_total" + own + "2",
       moved("device_to_host") + "11", moved("host_to_device") + "12",
       moved("host_to_disk") + "13", moved("disk_to_host") + "14",
       "winnow:kv_restores_total" + own + "6",
       "winnow:kv_stall_seconds_total" + own + "1.5",
       R"(vllm:cache_config_info{model_name="m",engine="0",)"
       R"(block_size="32",cache_dtype="bfloat16",)"
       R"(num_gpu_blocks="10",num_cpu_blocks="4"} 1)"});
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
                     .host = {.held = 1, .idle = 2, .free = 3}});
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
  EXPECT_EQ(text.find("tier=\"disk\""), std::string::npos);
  metrics.SetGauges({.disk = TierBytes{.held = 5, .idle = 6, .free = 7}});
  ExpectLines(metrics, {line("disk", "held", 5), line("disk", "idle", 6),
                        line("disk", "free", 7)});
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
