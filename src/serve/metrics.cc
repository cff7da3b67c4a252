#include "serve/metrics.h"

#include <algorithm>
#include <cmath>

namespace winnow {
namespace {

// vLLM's, so that quantiles come out alike.
constexpr double kFirstTokenBounds[] = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kInterTokenBounds[] = {
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
    0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kRequestBounds[] = {0.3, 0.5, 0.8, 1,   1.5, 2,    2.5,
                                     5,   10,  15,  20,  30,  40,   50,
                                     60,  120, 240, 480, 960, 1920, 7680};

// As a label's value may have it.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Heading(std::string_view name, std::string_view help,
                    std::string_view type) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

std::string One(std::string_view name, std::string_view help,
                std::string_view type, std::string_view labels, double value) {
  return fmt::format("{}{}{{{}}} {}\n", Heading(name, help, type), name, labels,
                     value);
}

double Seconds(double ms) { return ms / 1000; }

// vLLM's word for it.
std::string_view ReasonLabel(FinishReason reason) {
  return reason == FinishReason::kCancelled ? "abort"
                                            : FinishReasonName(reason);
}

}  // namespace

void Histogram::Observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  sum_ += value;
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (const uint64_t each : counts_) count += each;
  return count;
}

std::string Histogram::Text(std::string_view name, std::string_view help,
                            std::string_view labels) const {
  std::string text = Heading(name, help, "histogram");
  uint64_t count = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    count += counts_[i];
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                        bounds_[i], count);
  }
  count += counts_.back();
  text += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, count);
  text += fmt::format("{}_sum{{{}}} {}\n", name, labels, sum_);
  text += fmt::format("{}_count{{{}}} {}\n", name, labels, count);
  return text;
}

Metrics::Metrics(std::string model_name)
    : labels_(fmt::format("model_name=\"{}\"", Escaped(model_name))),
      first_token_s_(kFirstTokenBounds),
      inter_token_s_(kInterTokenBounds),
      request_s_(kRequestBounds),
      queue_s_(kRequestBounds),
      prefill_s_(kRequestBounds),
      decode_s_(kRequestBounds) {}

void Metrics::CountToken(bool is_first, Clock::duration since) {
  const double seconds = std::chrono::duration<double>(since).count();
  const std::scoped_lock lock(mutex_);
  ++num_generated_tokens_;
  (is_first ? first_token_s_ : inter_token_s_).Observe(seconds);
}

void Metrics::CountStart() {
  const std::scoped_lock lock(mutex_);
  ++num_started_;
}

void Metrics::CountRequest(const Completion& completion, FinishReason reason,
                           Clock::duration life) {
  const std::scoped_lock lock(mutex_);
  ++num_finished_[static_cast<size_t>(reason)];
  request_s_.Observe(std::chrono::duration<double>(life).count());
  num_preemptions_ += static_cast<uint64_t>(completion.num_preemptions);
  // Of what never got a token, nothing was read to its end.
  if (completion.num_generated_tokens == 0) return;
  num_prompt_tokens_ += static_cast<uint64_t>(completion.num_prompt_tokens);
  num_cached_tokens_ += static_cast<uint64_t>(completion.num_cached_tokens);
  queue_s_.Observe(Seconds(completion.timing.queue_ms));
  prefill_s_.Observe(Seconds(completion.timing.prefill_ms));
  decode_s_.Observe(Seconds(completion.timing.decode_ms));
}

void Metrics::CountAnswer(int status) {
  const std::scoped_lock lock(mutex_);
  ++num_answers_[static_cast<size_t>(std::clamp(status / 100, 0, 5))];
}

void Metrics::SetGauges(const LoopGauges& gauges) {
  const std::scoped_lock lock(mutex_);
  gauges_ = gauges;
}

std::string Metrics::CountersText() const {
  constexpr std::string_view kSuccess = "vllm:request_success_total";
  std::string text =
      Heading(kSuccess, "Requests that ended, by how", "counter");
  for (size_t i = 0; i < num_finished_.size(); ++i) {
    text += fmt::format("{}{{{},finished_reason=\"{}\"}} {}\n", kSuccess,
                        labels_, ReasonLabel(static_cast<FinishReason>(i)),
                        num_finished_[i]);
  }
  constexpr std::string_view kAnswers = "winnow:http_answers_total";
  text += Heading(kAnswers, "Answers over HTTP, by class of status", "counter");
  for (size_t i = 2; i < num_answers_.size(); ++i) {
    text += fmt::format("{}{{{},status=\"{}xx\"}} {}\n", kAnswers, labels_, i,
                        num_answers_[i]);
  }
  return text;
}

std::string Metrics::TiersText() const {
  constexpr std::string_view kBytes = "winnow:kv_tier_bytes";
  std::string text = Heading(
      kBytes,
      "Bytes of a tier's KV pool: held (by requests; of a disk: being written)"
      ", idle (kept for those to come), or free",
      "gauge");
  const auto add = [&](std::string_view tier, const TierBytes& bytes) {
    for (const auto& [state, count] :
         {std::pair("held", bytes.held), std::pair("idle", bytes.idle),
          std::pair("free", bytes.free)}) {
      text += fmt::format("{}{{{},tier=\"{}\",state=\"{}\"}} {}\n", kBytes,
                          labels_, tier, state, count);
    }
  };
  add("device", gauges_.device);
  add("host", gauges_.host);
  add("disk", gauges_.disk);
  return text;
}

std::string Metrics::StepsText() const {
  const auto lines = [this](std::string_view name, auto count) {
    return fmt::format(
        "{0}{{{1},chunks=\"yes\"}} {2}\n"
        "{0}{{{1},chunks=\"no\"}} {3}\n",
        name, labels_, gauges_.steps.with_chunks.*count,
        gauges_.steps.without_chunks.*count);
  };
  constexpr std::string_view kSteps = "winnow:bounded_steps_total";
  constexpr std::string_view kOver = "winnow:bounded_steps_over_total";
  using Count = BoundedSteps::Count;
  return Heading(kSteps,
                 "Steps with requests that generate while "
                 "--max-inter-token-time bounds them, with chunks of prompts "
                 "or without",
                 "counter") +
         lines(kSteps, &Count::num_steps) +
         Heading(kOver, "Of these, steps that took longer than the bound",
                 "counter") +
         lines(kOver, &Count::num_over) +
         One("winnow:step_time_margin",
             "What is foretold of a step's time counts so many times", "gauge",
             labels_, gauges_.step_time_margin);
}

std::string Metrics::Text() const {
  const std::scoped_lock lock(mutex_);
  const auto gauge = [&](auto name, auto help, double value) {
    return One(name, help, "gauge", labels_, value);
  };
  const auto counter = [&](auto name, auto help, uint64_t value) {
    return One(name, help, "counter", labels_, static_cast<double>(value));
  };
  const auto histogram = [&](auto name, auto help, const Histogram& values) {
    return values.Text(name, help, labels_);
  };
  return gauge("vllm:num_requests_running", "Requests that run",
               gauges_.num_running) +
         gauge("vllm:num_requests_waiting", "Requests that wait to run",
               gauges_.num_waiting) +
         gauge("vllm:kv_cache_usage_perc",
               "Share of the device's KV pool that requests hold, 1 is all",
               gauges_.kv_usage) +
         counter("vllm:prompt_tokens_total", "Tokens of prompts that were read",
                 num_prompt_tokens_) +
         counter("vllm:generation_tokens_total", "Tokens generated",
                 num_generated_tokens_) +
         counter("vllm:prefix_cache_queries_total",
                 "Prompt tokens looked up in the prefix cache",
                 num_prompt_tokens_) +
         counter("vllm:prefix_cache_hits_total",
                 "Prompt tokens found in the prefix cache",
                 num_cached_tokens_) +
         counter("vllm:num_preemptions_total",
                 "Times that a request gave way and came back",
                 num_preemptions_) +
         counter("winnow:requests_started_total",
                 "Requests that were taken in: those that ended, run or wait",
                 num_started_) +
         CountersText() + TiersText() + StepsText() +
         histogram("vllm:time_to_first_token_seconds",
                   "From arrival to the first token", first_token_s_) +
         histogram("vllm:inter_token_latency_seconds",
                   "From one token of a request to the next", inter_token_s_) +
         histogram("vllm:e2e_request_latency_seconds",
                   "From arrival to the end", request_s_) +
         histogram("vllm:request_queue_time_seconds", "Waiting to run",
                   queue_s_) +
         histogram("vllm:request_prefill_time_seconds", "Reading the prompt",
                   prefill_s_) +
         histogram("vllm:request_decode_time_seconds",
                   "From the first token to the last", decode_s_);
}

}  // namespace winnow
