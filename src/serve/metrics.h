// Metrics: what a server counts, and how Prometheus reads it.
#ifndef WINNOW_SERVE_METRICS_H_
#define WINNOW_SERVE_METRICS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/step_cost.h"

namespace winnow {

// Counts of observations up to each bound, as Prometheus has it.
class Histogram {
 public:
  // REQUIRES: bounds ascend and outlive this.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1, 0) {}

  void Observe(double value);
  // `labels` within braces; none: "".
  std::string Text(std::string_view name, std::string_view help,
                   std::string_view labels) const;
  uint64_t count() const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // of each interval; the last has no bound
  double sum_ = 0;
};

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
  TierBytes device = {}, host = {}, disk = {};
  BoundedSteps steps = {};
  double step_time_margin = 1;
};

// Owned by the server's command; any thread. A count is never taken back. Names
// are vLLM's where the meaning is the same (docs/metrics.md of theirs), so that
// dashboards work unchanged.
class Metrics {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Metrics(std::string model_name);

  // `since`: the request came, for its first token; else the token before it.
  void CountToken(bool is_first, Clock::duration since);
  // The engine took a request in, and
  void CountStart();
  // one that it took in has ended.
  void CountRequest(const Completion& completion, FinishReason reason,
                    Clock::duration life);
  // A request was refused with this status, or answered.
  void CountAnswer(int status);
  void SetGauges(const LoopGauges& gauges);

  // All of it, in Prometheus' text format (0.0.4).
  std::string Text() const;

 private:
  std::string CountersText() const;
  std::string TiersText() const;
  std::string StepsText() const;

  const std::string labels_;  // model_name="..."
  mutable std::mutex mutex_;  // for what follows
  LoopGauges gauges_;
  uint64_t num_started_ = 0;
  uint64_t num_prompt_tokens_ = 0;
  uint64_t num_generated_tokens_ = 0;
  uint64_t num_cached_tokens_ = 0;
  uint64_t num_preemptions_ = 0;
  std::array<uint64_t, 4> num_finished_ = {};  // by FinishReason
  std::array<uint64_t, 6> num_answers_ = {};   // by status / 100
  Histogram first_token_s_;
  Histogram inter_token_s_;
  Histogram request_s_;
  Histogram queue_s_;
  Histogram prefill_s_;
  Histogram decode_s_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_METRICS_H_
