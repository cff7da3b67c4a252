// The probability of a token before normalisation, as an integer.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_TOKEN_WEIGHT_H_
#define WINNOW_BACKEND_CPU_SAMPLE_TOKEN_WEIGHT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/contract/sampling.h"

namespace winnow {

// The weight of the best token is 2^kWeightBits; the others' are rounded to
// integers. Sums of integers are exact, so they do not depend on the order in
// which blocks, lanes or threads add them up, and differences of them are
// true. What it costs: a token less likely than 2^-45 of the best one weighs
// nothing and is never drawn.
inline constexpr int kWeightBits = 44;
// With another weight on top, as a division that rounds up adds it.
static_assert(uint64_t{kMaxSampledVocab} + 1 <= (~uint64_t{0} >> kWeightBits),
              "a sum of weights overflows");
// Tokens that one step of the loops over a row handles.
inline constexpr size_t kTokensPerBlock = 256;

// A token's weight is 2^(kWeightBits + octaves * (score - best)).
struct WeightScale {
  float best = 0;     // the highest score
  float octaves = 0;  // per unit of score: log2(e) / temperature
};

// REQUIRES: best is finite; temperature > 0. Below 4e-39 it counts as 4e-39.
WeightScale MakeWeightScale(float best, float temperature);

// The exponential is a polynomial of our own in float32, within 2e-7 of the
// true one: products, sums and conversions as IEEE 754 states them, so weights
// are the same on any machine, whatever its libm or vector width. It never
// decreases with the score. REQUIRES: score <= scale.best.
uint64_t TokenWeight(float score, const WeightScale& scale);

// weights[i] is the weight of scores[i], or 0 where that is below `threshold`.
// REQUIRES: at most kTokensPerBlock scores, none above scale.best, none NaN.
void FillWeights(std::span<const float> scores, float threshold,
                 const WeightScale& scale, uint64_t* weights);

// The sum of the weights of all scores that are not below `threshold`.
// REQUIRES: at most kMaxSampledVocab scores, none above scale.best, none NaN.
uint64_t SumWeights(std::span<const float> scores, float threshold,
                    const WeightScale& scale);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_TOKEN_WEIGHT_H_
