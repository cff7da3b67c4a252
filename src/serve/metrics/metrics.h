// Metrics: the server's counters, in Prometheus' format.
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

// Bytes of a tier: held by requests (for a disk: being written), idle pages for
// later requests, and free.
struct TierBytes {
  int64_t held = 0, idle = 0, free = 0;
};

// The loop's values after each step.
struct LoopGauges {
  int num_running = 0;
  int num_waiting = 0;
  double kv_usage = 0;  // held share of the device pool, in [0, 1]
  TierBytes device = {}, host = {};
  std::optional<TierBytes> disk = {};  // none: no disk tier
  int64_t num_device_pages = 0, num_host_pages = 0;
  std::string_view kv_dtype = "";  // lives as long as the process
  EngineCounters engine = {};
  BoundedSteps steps = {};
  double step_time_margin = 1;
};

// One ended request of the engine: one answer to a prompt.
struct EndedRequest {
  const Completion& completion;
  FinishReason reason = FinishReason::kStop;  // as the reader sees it
  std::chrono::steady_clock::duration life = {};
  int max_tokens = 0;
};

// An answer over HTTP.
struct CountedReply {
  std::string_view method;
  std::string_view handler;  // the route's path; empty: no route
  int status = 0;
};

// Owned by the server's command; any thread. Counters never decrease. Names are
// vLLM's if the meaning is the same, so that dashboards work unchanged
// (docs/metrics.md lists them).
class Metrics {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Metrics(std::string model_name);

  // Counts prompt tokens that were read, cached ones included. Counted once for
  // all answers to a prompt.
  void CountPromptTokens(int num_tokens);
  // `since`: the time since the request's arrival for its first token, else
  // since the token before.
  void CountToken(bool is_first, Clock::duration since);
  // Counts a request that the engine accepted.
  void CountStart();
  // Counts an accepted request that has ended.
  void CountRequest(const EndedRequest& ended);
  // Counts a prompt whose `n` answers have all ended, the longest with
  // `most_generated_tokens`.
  void CountPrompt(int n, int most_generated_tokens);
  // Counts a landed step. `num_rows`: rows that have passed all layers.
  void CountStep(int64_t num_rows);
  // Counts a refused or answered request.
  void CountAnswer(const CountedReply& reply);
  void SetGauges(const LoopGauges& gauges);
  // Sets the engine's counters among them.
  void SetCounters(const EngineCounters& counters);

  // All metrics in Prometheus' text format.
  std::string Text() const;

 private:
  // By name, in the order of output.
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
  mutable std::mutex mutex_;  // guards the members below
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
