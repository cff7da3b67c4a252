#include "serve/metrics/metrics.h"

#include <algorithm>
#include <utility>

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
// There they end with the longest context; here, whatever that is.
constexpr double kTokenBounds[] = {
    1,    2,    5,     10,    20,    50,     100,    200,    500, 1000,
    2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1e6};
constexpr double kStepBounds[] = {1,   8,    16,   32,   64,   128,  256,
                                  512, 1024, 2048, 4096, 8192, 16384};
constexpr double kFewBounds[] = {1, 2, 5, 10, 20};
constexpr double kPreemptionBounds[] = {0, 1, 2, 5, 10, 20};

double Seconds(double ms) { return ms / 1000; }
double Seconds(Metrics::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// A client may send any word.
std::string_view KnownMethod(std::string_view method) {
  for (const std::string_view known :
       {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
    if (method == known) return known;
  }
  return "other";
}

}  // namespace

Metrics::Histograms::Histograms()
    : first_token_s(kFirstTokenBounds),
      inter_token_s(kInterTokenBounds),
      request_s(kRequestBounds),
      queue_s(kRequestBounds),
      prefill_s(kRequestBounds),
      decode_s(kRequestBounds),
      inference_s(kRequestBounds),
      mean_token_s(kInterTokenBounds),
      prompt_tokens(kTokenBounds),
      computed_tokens(kTokenBounds),
      generated_tokens(kTokenBounds),
      max_tokens(kTokenBounds),
      most_generated_tokens(kTokenBounds),
      n(kFewBounds),
      preemptions(kPreemptionBounds),
      step_tokens(kStepBounds) {}

Metrics::Metrics(std::string model_name) : model_name_(std::move(model_name)) {}

void Metrics::CountPromptTokens(int num_tokens) {
  const std::scoped_lock lock(mutex_);
  num_prompt_tokens_ += static_cast<uint64_t>(num_tokens);
}

void Metrics::CountToken(bool is_first, Clock::duration since) {
  const std::scoped_lock lock(mutex_);
  ++num_generated_tokens_;
  (is_first ? histograms_.first_token_s : histograms_.inter_token_s)
      .Observe(Seconds(since));
}

void Metrics::CountStart() {
  const std::scoped_lock lock(mutex_);
  ++num_started_;
}

void Metrics::CountRequest(const EndedRequest& ended) {
  const Completion& completion = ended.completion;
  const std::scoped_lock lock(mutex_);
  Histograms& all = histograms_;
  ++num_finished_[static_cast<size_t>(ended.reason)];
  all.request_s.Observe(Seconds(ended.life));
  all.prompt_tokens.Observe(completion.num_prompt_tokens);
  all.generated_tokens.Observe(completion.num_generated_tokens);
  all.max_tokens.Observe(ended.max_tokens);
  all.preemptions.Observe(completion.num_preemptions);
  // Of what never got a token, nothing was read to its end.
  const int num_tokens = completion.num_generated_tokens;
  if (num_tokens == 0) return;
  const RequestTiming& timing = completion.timing;
  all.computed_tokens.Observe(completion.num_prompt_tokens -
                              completion.num_cached_tokens);
  all.queue_s.Observe(Seconds(timing.queue_ms));
  all.prefill_s.Observe(Seconds(timing.prefill_ms));
  all.decode_s.Observe(Seconds(timing.decode_ms));
  all.inference_s.Observe(Seconds(timing.prefill_ms + timing.decode_ms));
  all.mean_token_s.Observe(
      num_tokens > 1 ? Seconds(timing.decode_ms) / (num_tokens - 1) : 0);
}

void Metrics::CountPrompt(int n, int most_generated_tokens) {
  const std::scoped_lock lock(mutex_);
  histograms_.n.Observe(n);
  histograms_.most_generated_tokens.Observe(most_generated_tokens);
}

void Metrics::CountStep(int64_t num_rows) {
  const std::scoped_lock lock(mutex_);
  histograms_.step_tokens.Observe(static_cast<double>(num_rows));
}

void Metrics::CountAnswer(const CountedReply& reply) {
  const int kind = std::clamp(reply.status / 100, 0, 5);
  const std::string_view handler =
      reply.handler.empty() ? "none" : reply.handler;
  const std::scoped_lock lock(mutex_);
  ++num_answers_[static_cast<size_t>(kind)];
  ++num_replies_[{std::string(handler), std::string(KnownMethod(reply.method)),
                  kind}];
}

void Metrics::SetGauges(const LoopGauges& gauges) {
  const std::scoped_lock lock(mutex_);
  gauges_ = gauges;
}

void Metrics::SetCounters(const EngineCounters& counters) {
  const std::scoped_lock lock(mutex_);
  gauges_.engine = counters;
}

}  // namespace winnow
