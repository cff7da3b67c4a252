// One row of Sample: from logits to a token.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_SAMPLE_ROW_H_
#define WINNOW_BACKEND_CPU_SAMPLE_SAMPLE_ROW_H_

#include <cstdint>
#include <span>

#include "backend/contract/sampling.h"

namespace winnow {

struct SampleRowArgs {
  std::span<float> logits;  // f32 [vocab]; overwritten
  const SamplingRow& row;
  std::span<const SeenToken> seen;
  std::span<const TokenBias> bias;
  const uint32_t* mask = nullptr;  // u32 [ceil(vocab / 32)], or null
  std::span<int32_t> top_ids;      // out: i32 [max top]
  std::span<float> top_logprobs;   // out: f32 [max top]
  // Where the logits of seen and biased tokens wait until one is drawn: what
  // penalties and biases do to a float cannot be undone.
  std::span<float> originals;  // f32 [vocab] scratch
};

struct SampledToken {
  int32_t token_id = -1;
  float logprob = 0;
};

// Draws as backend/contract/sampling.h states. What it leaves open:
//  * NaN logits count as -infinity, +infinity as the highest float. A token of
//    -infinity, be it by its logit, a bias or an overflow, is never drawn;
//    where no token is left the answer is -1 with a log probability of
//    -infinity. Masked and penalised tokens keep their log probabilities.
//  * min_p = 1 keeps all tokens that tie with the best. top_p counts the
//    probability that min_p and top_k have left as 1.
//  * Of the top logprobs, those that the row does not want or that would name
//    a token of -infinity are -1 and -infinity.
// Bits depend on the arguments alone; only log probabilities, and the place of
// min_p's threshold, pass through libm's logarithm.
// REQUIRES: temperature >= 0, top_p >= 0, min_p <= 1, repetition_penalty > 0,
// num_top_logprobs <= max top; vocab in [1, kMaxSampledVocab].
SampledToken SampleRow(const SampleRowArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_SAMPLE_ROW_H_
