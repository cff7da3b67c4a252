// Metrics: what a server counts, and how Prometheus reads it.
#ifndef WINNOW_SERVE_METRICS_METRICS_H_
#define WINNOW_SERVE_METRICS_METRICS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "engine/request/engine_counters.h"
#include "engine/request/request.h"
#include "engine/schedule/step_cost.h"
#include "serve/metrics/metrics_text.h"

namespace winnow {

// Of a tier's KV pool: what requests hold, of a disk what is being written;
// what lies there for those to come; and what is free.
struct TierBytes {
  int64_t held = 0, idle = 0, free = 0;
};

// What the loop says of itself after each step.
struct LoopGauges {
  int num_running = 0;
  int num_waiting = 0;
  double kv_usage = 0;  // share of the device pool that is held, in [0, 1]
  TierBytes device = {}, host = {};
  std::optional<TierBytes> disk = {};  // none: there is none
  int64_t num_device_pages = 0, num_host_pages = 0;
  std::string_view kv_dtype = "";  // lives as long as the process
  EngineCounters engine = {};
  BoundedSteps steps = {};
  double step_time_margin = 1;
};

// One request of the engine, which has ended: one of the answers to a prompt.
struct EndedRequest {
  const Completion& completion;
  FinishReason reason = FinishReason::kStop;  // as its reader sees it
  std::chrono::steady_clock::duration life = {};
  int max_tokens = 0;
};

// An answer over HTTP.
struct CountedReply {
  std::string_view method;
  std::string_view handler;  // the route's path; empty: none
  int status = 0;
};

// Owned by the server's command; any thread. A count is never taken back. Names
// are vLLM's where the meaning is the same, so that dashboards work unchanged
// (docs/metrics.md lists them).
class Metrics {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Metrics(std::string model_name);

  // More of a prompt has been read, cached tokens among them, by the first of
  // its answers that came so far.
  void CountPromptTokens(int num_tokens);
  // `since`: the request came, for its first token; else the token before it.
  void CountToken(bool is_first, Clock::duration since);
  // The engine took a request in, and
  void CountStart();
  // one that it took in has ended.
  void CountRequest(const EndedRequest& ended);
  // All `n` answers to a prompt have ended, the longest with so many tokens.
  void CountPrompt(int n, int most_generated_tokens);
  // A step has landed, with so many rows that have come through all layers.
  void CountStep(int64_t num_rows);
  // A request was refused, or answered.
  void CountAnswer(const CountedReply& reply);
  void SetGauges(const LoopGauges& gauges);
  // Of them, what the engine has counted.
  void SetCounters(const EngineCounters& counters);

  // All of it, in Prometheus' text format.
  std::string Text() const;

 private:
  // By name in the order in which they are told.
  struct Histograms {
    Histograms();
    Histogram first_token_s, inter_token_s, request_s, queue_s, prefill_s,
        decode_s, inference_s, mean_token_s;
    Histogram prompt_tokens, computed_tokens, generated_tokens, max_tokens,
        most_generated_tokens, n, preemptions, step_tokens;
  };

  void AddRequests(MetricsText& text) const;
  void AddAnswers(MetricsText& text) const;
  void AddTiers(MetricsText& text) const;
  void AddTraffic(MetricsText& text) const;
  void AddSteps(MetricsText& text) const;
  void AddTimes(MetricsText& text) const;
  void AddSizes(MetricsText& text) const;

  const std::string model_name_;
  mutable std::mutex mutex_;  // for what follows
  LoopGauges gauges_;
  uint64_t num_started_ = 0;
  uint64_t num_prompt_tokens_ = 0;
  uint64_t num_generated_tokens_ = 0;
  std::array<uint64_t, 4> num_finished_ = {};  // by FinishReason
  std::array<uint64_t, 6> num_answers_ = {};   // by status / 100
  // By handler, method and status / 100.
  std::map<std::tuple<std::string, std::string, int>, uint64_t> num_replies_;
  Histograms histograms_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_METRICS_METRICS_H_
