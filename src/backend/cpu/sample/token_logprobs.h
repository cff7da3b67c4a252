// Log probabilities of the model's own distribution.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_TOKEN_LOGPROBS_H_
#define WINNOW_BACKEND_CPU_SAMPLE_TOKEN_LOGPROBS_H_

#include <cstdint>
#include <span>

namespace winnow {

// What turns a logit into the logarithm of a softmax's probability.
struct LogSoftmax {
  float best = 0;      // the highest logit
  double log_sum = 0;  // ln(sum of exp(logit - best))

  // -infinity for an excluded token.
  float Logprob(float logit) const {
    return static_cast<float>((static_cast<double>(logit) - best) - log_sum);
  }
};

// Stable: no exponential above 1 is taken, and their sum (token_weight.h) is
// exact. The relative error of probabilities is below 1e-6.
// REQUIRES: the logits are ordered (token_scores.h), best is the highest of
// them and not excluded.
LogSoftmax MakeLogSoftmax(std::span<const float> logits,  // f32 [vocab]
                          float best);

// The highest logits in descending order, ties to the lowest id, and their log
// probabilities: as many as the outputs have room for. Where fewer tokens are
// not excluded, the rest of the ids is -1 and of the logprobs -infinity.
// REQUIRES: the logits are ordered.
void FindTopLogprobs(std::span<const float> logits,  // f32 [vocab]
                     const LogSoftmax& softmax,
                     std::span<int32_t> ids,      // i32 [top]
                     std::span<float> logprobs);  // f32 [top]

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_TOKEN_LOGPROBS_H_
