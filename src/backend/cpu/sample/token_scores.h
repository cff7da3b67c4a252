// From the model's logits to the scores that tokens are chosen by.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_TOKEN_SCORES_H_
#define WINNOW_BACKEND_CPU_SAMPLE_TOKEN_SCORES_H_

#include <cstdint>
#include <limits>
#include <span>

#include "backend/contract/sampling.h"

namespace winnow {

// The score of a token that cannot be drawn.
inline constexpr float kExcludedScore = -std::numeric_limits<float>::infinity();
// The lowest and the highest score of a token that can.
inline constexpr float kLowestScore = std::numeric_limits<float>::lowest();
inline constexpr float kHighestScore = std::numeric_limits<float>::max();

// What every logit goes through, as it comes and after each change, so that
// scores are totally ordered: NaN is kExcludedScore, infinity is
// kHighestScore, and -0 is 0.
inline float Ordered(float logit) {
  const float bounded = logit < kHighestScore ? logit : kHighestScore;
  return logit >= kLowestScore ? bounded + 0.0f : kExcludedScore;
}

// Applies Ordered to every one of `scores` and returns the highest;
// kExcludedScore where there is none.
float OrderScores(std::span<float> scores);  // f32 [vocab]
// The highest score. REQUIRES: the scores are ordered.
float BestScore(std::span<const float> scores);  // f32 [vocab]
// The first token whose score is `score`. REQUIRES: there is one.
int32_t FirstTokenWith(std::span<const float> scores,  // f32 [vocab]
                       float score);

// Lowers the scores of tokens that have occurred, in float32 and this order:
// divides a positive score by the repetition penalty, multiplies another; then
// for generated tokens subtracts the frequency penalty times their number, and
// the presence penalty. REQUIRES: distinct token ids in [0, vocab).
void ApplyPenalties(std::span<const SeenToken> seen, const SamplingRow& row,
                    std::span<float> scores);  // f32 [vocab]
// Adds the biases. REQUIRES: distinct token ids in [0, vocab).
void ApplyBias(std::span<const TokenBias> bias,
               std::span<float> scores);  // f32 [vocab]
// Excludes every token whose bit is not set.
void ApplyMask(const uint32_t* mask,      // u32 [ceil(vocab / 32)]
               std::span<float> scores);  // f32 [vocab]

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_TOKEN_SCORES_H_
