// The names of /metrics, held to those that dashboards made for vLLM read, and
// to the page that lists them.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "base/file.h"
#include "serve/metrics/metrics.h"
#include "source_dir.h"

namespace winnow {
namespace {

struct ReadName {
  std::string_view name;  // as a dashboard has it, without _bucket and _sum
  std::string_view kind;  // none: it is left out
  std::string_view why_not = "";
};

constexpr std::string_view kNoLora = "no adapters are loaded";
constexpr std::string_view kNoImages = "no model here reads images";
constexpr std::string_view kNoDrafts = "nothing is drafted";
constexpr std::string_view kOneCache =
    "device, host and disk are one cache: its hits are in prefix_cache_hits";
constexpr std::string_view kOwnTiers =
    "of a connector beside the cache; winnow:kv_bytes_total and its like say "
    "what tiers do";
constexpr std::string_view kNoLives = "lives of pages are not followed";
constexpr std::string_view kOwnTimes =
    "a stream lasts as long as its answer: e2e_request_latency has that";

// All that vLLM documents for dashboards and autoscalers, with kinds.
constexpr ReadName kNames[] = {
    {"vllm:num_requests_running", "gauge"},
    {"vllm:num_requests_waiting", "gauge"},
    {"vllm:num_requests_waiting_by_reason", "gauge"},
    {"vllm:kv_cache_usage_perc", "gauge"},
    {"vllm:gpu_cache_usage_perc", "gauge"},  // its older name
    {"vllm:prompt_tokens_total", "counter"},
    {"vllm:prompt_tokens_cached_total", "counter"},
    {"vllm:generation_tokens_total", "counter"},
    {"vllm:request_success_total", "counter"},
    {"vllm:prefix_cache_queries_total", "counter"},
    {"vllm:prefix_cache_hits_total", "counter"},
    {"vllm:num_preemptions_total", "counter"},
    {"vllm:external_prefix_cache_queries_total", "", kOneCache},
    {"vllm:external_prefix_cache_hits_total", "", kOneCache},
    {"vllm:time_to_first_token_seconds", "histogram"},
    {"vllm:inter_token_latency_seconds", "histogram"},
    {"vllm:time_per_output_token_seconds", "histogram"},  // its older name
    {"vllm:request_time_per_output_token_seconds", "histogram"},
    {"vllm:e2e_request_latency_seconds", "histogram"},
    {"vllm:request_queue_time_seconds", "histogram"},
    {"vllm:request_prefill_time_seconds", "histogram"},
    {"vllm:request_decode_time_seconds", "histogram"},
    {"vllm:request_inference_time_seconds", "histogram"},
    {"vllm:request_prompt_tokens", "histogram"},
    {"vllm:request_generation_tokens", "histogram"},
    {"vllm:request_max_num_generation_tokens", "histogram"},
    {"vllm:request_params_n", "histogram"},
    {"vllm:request_params_max_tokens", "histogram"},
    {"vllm:iteration_tokens_total", "histogram"},
    {"vllm:request_prefill_kv_computed_tokens", "histogram"},
    {"vllm:request_num_preemptions", "histogram"},
    {"vllm:cache_config_info", "gauge"},
    {"vllm:lora_requests_info", "", kNoLora},
    {"vllm:mm_cache_queries_total", "", kNoImages},
    {"vllm:mm_cache_hits_total", "", kNoImages},
    {"vllm:spec_decode_num_drafts_total", "", kNoDrafts},
    {"vllm:spec_decode_num_draft_tokens_total", "", kNoDrafts},
    {"vllm:spec_decode_num_accepted_tokens_total", "", kNoDrafts},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", "", kNoDrafts},
    {"vllm:kv_offload_load_bytes", "", kOwnTiers},
    {"vllm:kv_offload_load_time", "", kOwnTiers},
    {"vllm:kv_offload_load_size", "", kOwnTiers},
    {"vllm:kv_offload_store_bytes", "", kOwnTiers},
    {"vllm:kv_offload_store_time", "", kOwnTiers},
    {"vllm:kv_offload_store_size", "", kOwnTiers},
    {"vllm:kv_offload_cpu_cache_usage_perc", "", kOwnTiers},
    {"vllm:kv_offload_stores_skipped", "", kOwnTiers},
    {"vllm:kv_block_lifetime_seconds", "", kNoLives},
    {"vllm:kv_block_idle_before_evict_seconds", "", kNoLives},
    {"vllm:kv_block_reuse_gap_seconds", "", kNoLives},
    {"vllm:hisparse_host_block_*_seconds", "", kNoLives},
    {"http_requests_total", "counter"},
    {"http_request_duration_seconds", "", kOwnTimes}};

// Of all families that are told, kinds by name.
std::map<std::string, std::string> KindsByName() {
  Metrics metrics("m");
  metrics.CountAnswer({"GET", "/health", 200});
  std::map<std::string, std::string> kinds;
  std::istringstream text(metrics.Text());
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string hash, type, name, kind;
    if (!(words >> hash >> type >> name >> kind) || type != "TYPE") continue;
    EXPECT_TRUE(kinds.emplace(name, kind).second) << name << " is there twice";
  }
  return kinds;
}

TEST(MetricsNamesTest, AreThoseThatDashboardsRead) {
  std::map<std::string, std::string> kinds = KindsByName();
  for (const ReadName& read : kNames) {
    const auto found = kinds.find(std::string(read.name));
    EXPECT_NE(read.kind.empty(), read.why_not.empty()) << read.name;
    EXPECT_EQ(found == kinds.end() ? "" : found->second, read.kind)
        << read.name << ", " << read.why_not;
    if (found != kinds.end()) kinds.erase(found);
  }
  for (const auto& [name, kind] : kinds) {
    EXPECT_TRUE(name.starts_with("winnow:"))
        << name << " would be taken for somebody else's";
  }
}

TEST(MetricsNamesTest, EachSampleOfVllmsNamesTheEngine) {
  std::istringstream text(Metrics("m").Text());
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("vllm:")) continue;
    EXPECT_NE(line.find(R"({model_name="m",engine="0")"), std::string::npos)
        << line;
  }
}

// Each family has a line in a table there, `name` | kind, and each that is left
// out its reason.
TEST(MetricsNamesTest, AreOnTheirPage) {
  const Result<std::string> page =
      ReadFile(WINNOW_SOURCE_DIR "/docs/metrics.md", 1 << 20);
  ASSERT_TRUE(page.ok());
  const std::map<std::string, std::string> kinds = KindsByName();
  size_t num_lines = 0;
  std::istringstream text(*page);
  for (std::string line; std::getline(text, line);) {
    num_lines += line.starts_with("| `") ? 1 : 0;
  }
  for (const auto& [name, kind] : kinds) {
    EXPECT_NE(page->find(fmt::format("\n| `{}` | {} |", name, kind)),
              std::string::npos)
        << name;
  }
  size_t num_left_out = 0;
  for (const ReadName& read : kNames) {
    if (!read.kind.empty()) continue;
    ++num_left_out;
    EXPECT_NE(page->find(fmt::format("\n| `{}` | left out |", read.name)),
              std::string::npos)
        << read.name;
  }
  EXPECT_EQ(num_lines, kinds.size() + num_left_out);
}

}  // namespace
}  // namespace winnow
