// What /metrics says: names, kinds and words.
#include "serve/metrics/metrics.h"

namespace winnow {
namespace {

// vLLM's word for it.
std::string_view ReasonLabel(FinishReason reason) {
  return reason == FinishReason::kCancelled ? "abort"
                                            : FinishReasonName(reason);
}

double Number(uint64_t count) { return static_cast<double>(count); }
double Number(int64_t count) { return static_cast<double>(count); }

}  // namespace

void Metrics::AddRequests(MetricsText& text) const {
  const EngineCounters& engine = gauges_.engine;
  text.AddGauge("vllm:num_requests_running", "Requests that run",
                gauges_.num_running);
  text.AddGauge("vllm:num_requests_waiting", "Requests that wait to run",
                gauges_.num_waiting);
  text.Begin("vllm:num_requests_waiting_by_reason",
             "Requests that wait to run, by what they wait for", "gauge");
  text.AddSample("reason=\"capacity\"", gauges_.num_waiting);
  text.AddSample("reason=\"deferred\"", 0);
  constexpr std::string_view kUsage =
      "Share of the device's KV pool that requests hold, 1 is all";
  text.AddGauge("vllm:kv_cache_usage_perc", kUsage, gauges_.kv_usage);
  text.AddGauge("vllm:gpu_cache_usage_perc", kUsage, gauges_.kv_usage);
  text.AddCounter(
      "vllm:prompt_tokens_total",
      "Tokens of prompts that were read, or were cached, once a prompt",
      Number(num_prompt_tokens_));
  text.AddCounter("vllm:prompt_tokens_cached_total",
                  "Tokens of prompts that were cached",
                  Number(engine.num_found_tokens));
  text.AddCounter("vllm:generation_tokens_total", "Tokens generated",
                  Number(num_generated_tokens_));
  text.AddCounter("vllm:prefix_cache_queries_total",
                  "Prompt tokens looked up in the prefix cache",
                  Number(engine.num_looked_up_tokens));
  text.AddCounter("vllm:prefix_cache_hits_total",
                  "Prompt tokens found in the prefix cache, on any tier",
                  Number(engine.num_found_tokens));
  text.AddCounter("vllm:num_preemptions_total",
                  "Times that a request was preempted",
                  Number(engine.num_preemptions));
  text.AddCounter("winnow:requests_started_total",
                  "Requests that were taken in: those that ended, run or wait",
                  Number(num_started_));
  text.Begin("vllm:request_success_total", "Requests that ended, by how",
             "counter");
  for (size_t i = 0; i < num_finished_.size(); ++i) {
    const auto reason = static_cast<FinishReason>(i);
    text.AddSample(fmt::format("finished_reason=\"{}\"", ReasonLabel(reason)),
                   num_finished_[i]);
  }
}

void Metrics::AddAnswers(MetricsText& text) const {
  text.Begin("winnow:http_answers_total",
             "Answers over HTTP, by class of status", "counter");
  for (size_t i = 2; i < num_answers_.size(); ++i) {
    text.AddSample(fmt::format("status=\"{}xx\"", i), num_answers_[i]);
  }
  if (num_replies_.empty()) return;
  text.Begin("http_requests_total",
             "Answers over HTTP, by route, method and class of status",
             "counter");
  for (const auto& [key, count] : num_replies_) {
    const auto& [handler, method, kind] = key;
    text.AddSample(fmt::format("handler=\"{}\",method=\"{}\",status=\"{}xx\"",
                               handler, method, kind),
                   count);
  }
}

void Metrics::AddTiers(MetricsText& text) const {
  text.Begin("winnow:kv_tier_bytes",
             "Bytes of a tier's KV pool: held (by requests; of a disk: being "
             "written), idle (kept for those to come), or free",
             "gauge");
  const auto add = [&](std::string_view tier, const TierBytes& bytes) {
    for (const auto& [state, count] :
         {std::pair("held", bytes.held), std::pair("idle", bytes.idle),
          std::pair("free", bytes.free)}) {
      text.AddSample(fmt::format("tier=\"{}\",state=\"{}\"", tier, state),
                     count);
    }
  };
  add("device", gauges_.device);
  add("host", gauges_.host);
  if (gauges_.disk) add("disk", *gauges_.disk);
  text.Begin("vllm:cache_config_info",
             "The KV pools: tokens a page, what numbers are stored as, pages",
             "gauge");
  text.AddSample(
      fmt::format("block_size=\"{}\",cache_dtype=\"{}\",num_gpu_blocks=\"{}\","
                  "num_cpu_blocks=\"{}\"",
                  kPageTokens, gauges_.kv_dtype, gauges_.num_device_pages,
                  gauges_.num_host_pages),
      1);
}

void Metrics::AddTraffic(MetricsText& text) const {
  const EngineCounters& engine = gauges_.engine;
  text.AddCounter("winnow:kv_hits_total",
                  "Pieces of pages that are not whole which a step picked and "
                  "found in a slot",
                  Number(engine.brought.hits));
  text.AddCounter("winnow:kv_misses_total",
                  "Pieces of pages that are not whole which a step picked and "
                  "found in no slot",
                  Number(engine.brought.misses));
  text.Begin("winnow:kv_bytes_total",
             "Bytes of KV that went from one tier to the next", "counter");
  const KvTraffic& traffic = engine.traffic;
  for (const auto& [direction, count] :
       {std::pair("device_to_host", traffic.device_to_host_bytes),
        std::pair("host_to_device", traffic.host_to_device_bytes),
        std::pair("host_to_disk", traffic.host_to_disk_bytes),
        std::pair("disk_to_host", traffic.disk_to_host_bytes)}) {
    text.AddSample(fmt::format("direction=\"{}\"", direction), count);
  }
  text.AddCounter("winnow:kv_restores_total",
                  "Times that whole pages came from the host or the disk for a "
                  "request",
                  Number(engine.num_restores));
  text.AddCounter(
      "winnow:kv_stall_seconds_total",
      "That requests waited for KV that was not near: for a disk by "
      "the clock, for the link by its bytes and rate",
      engine.stall_ms / 1000);
}

void Metrics::AddSteps(MetricsText& text) const {
  const auto add = [&](std::string_view name, std::string_view help,
                       auto count) {
    text.Begin(name, help, "counter");
    text.AddSample("chunks=\"yes\"", gauges_.steps.with_chunks.*count);
    text.AddSample("chunks=\"no\"", gauges_.steps.without_chunks.*count);
  };
  using Count = BoundedSteps::Count;
  add("winnow:bounded_steps_total",
      "Steps with requests that generate while --max-inter-token-time bounds "
      "them, with chunks of prompts or without",
      &Count::num_steps);
  add("winnow:bounded_steps_over_total",
      "Of these, steps that took longer than the bound", &Count::num_over);
  text.AddGauge("winnow:step_time_margin",
                "What is foretold of a step's time counts so many times",
                gauges_.step_time_margin);
}

void Metrics::AddTimes(MetricsText& text) const {
  const Histograms& all = histograms_;
  constexpr std::string_view kInterToken =
      "From one token of a request to the next";
  text.Add("vllm:time_to_first_token_seconds",
           "From arrival to the first token", all.first_token_s);
  text.Add("vllm:inter_token_latency_seconds", kInterToken, all.inter_token_s);
  text.Add("vllm:time_per_output_token_seconds", kInterToken,
           all.inter_token_s);
  text.Add("vllm:request_time_per_output_token_seconds",
           "A request's mean from one token to the next", all.mean_token_s);
  text.Add("vllm:e2e_request_latency_seconds", "From arrival to the end",
           all.request_s);
  text.Add("vllm:request_queue_time_seconds", "Waiting to run", all.queue_s);
  text.Add("vllm:request_prefill_time_seconds", "Reading the prompt",
           all.prefill_s);
  text.Add("vllm:request_decode_time_seconds",
           "From the first token to the last", all.decode_s);
  text.Add("vllm:request_inference_time_seconds",
           "From the start to the last token", all.inference_s);
}

void Metrics::AddSizes(MetricsText& text) const {
  const Histograms& all = histograms_;
  text.Add("vllm:request_prompt_tokens", "Tokens of a request's prompt",
           all.prompt_tokens);
  text.Add("vllm:request_generation_tokens", "Tokens that a request generated",
           all.generated_tokens);
  text.Add("vllm:request_max_num_generation_tokens",
           "Tokens of the longest of the answers to a prompt",
           all.most_generated_tokens);
  text.Add("vllm:request_params_n", "Answers asked for to a prompt", all.n);
  text.Add("vllm:request_params_max_tokens",
           "Tokens that a request may generate at most", all.max_tokens);
  text.Add("vllm:request_prefill_kv_computed_tokens",
           "Tokens of a prompt that were not cached", all.computed_tokens);
  text.Add("vllm:request_num_preemptions", "Times that a request was preempted",
           all.preemptions);
  text.Add("vllm:iteration_tokens_total",
           "Rows of a step that have come through all layers", all.step_tokens);
}

std::string Metrics::Text() const {
  const std::scoped_lock lock(mutex_);
  MetricsText text(model_name_);
  AddRequests(text);
  AddAnswers(text);
  AddTiers(text);
  AddTraffic(text);
  AddSteps(text);
  AddTimes(text);
  AddSizes(text);
  return text.Take();
}

}  // namespace winnow
