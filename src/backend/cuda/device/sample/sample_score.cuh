// Scores and weights of tokens on the device, bit for bit those of
// backend/cpu/sample/token_scores.h and token_weight.h. Each product and sum is
// rounded alone, whatever the compiler would fuse.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_SCORE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_SCORE_CUH_

#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace winnow::device {

inline constexpr float kLowestScore = -FLT_MAX;
inline constexpr float kHighestScore = FLT_MAX;
// The best token's weight is 2^kWeightBits; those of 2^19 tokens and one more
// sum up in 64 bits, exactly, so that no order of summation shows.
inline constexpr int kWeightBits = 44;

// The score of a token that cannot be drawn: minus infinity.
__device__ inline float ExcludedScore() { return __uint_as_float(0xff800000u); }

// NaN as excluded, infinity as the highest score, -0 as 0.
__device__ inline float Ordered(float logit) {
  const float bounded = logit < kHighestScore ? logit : kHighestScore;
  return logit >= kLowestScore ? __fadd_rn(bounded, 0.0f) : ExcludedScore();
}

// Unsigned integers in the order of ordered scores, and back.
__device__ inline uint32_t KeyOfScore(float score) {
  const uint32_t bits = __float_as_uint(score);
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}
__device__ inline float ScoreOfKey(uint32_t key) {
  return __uint_as_float(key ^ ((key >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

// Orders tokens by score, then by descending id: the highest is the first of
// the best.
__device__ inline uint64_t TokenKey(float score, int token_id) {
  return static_cast<uint64_t>(KeyOfScore(score)) << 32 |
         ~static_cast<uint32_t>(token_id);
}
__device__ inline float ScoreOfToken(uint64_t key) {
  return ScoreOfKey(static_cast<uint32_t>(key >> 32));
}
__device__ inline int IdOfToken(uint64_t key) {
  return static_cast<int>(~static_cast<uint32_t>(key));
}

// A token's weight is 2^(kWeightBits + octaves * (score - best)).
struct WeightScale {
  float best;     // the highest score
  float octaves;  // per unit of score: log2(e) / temperature
};

// REQUIRES: best is not excluded; temperature > 0.
__device__ inline WeightScale MakeWeightScale(float best, float temperature) {
  const double octaves =
      __ddiv_rn(1.4426950408889634, static_cast<double>(temperature));
  return {best, __double2float_rn(fmin(octaves, double{kHighestScore}))};
}

__device__ inline float MultiplyThenAdd(float a, float b, float c) {
  return __fadd_rn(__fmul_rn(a, b), c);
}

// REQUIRES: score <= scale.best.
__device__ inline uint64_t TokenWeight(float score, const WeightScale& scale) {
  constexpr float kLowest = -60.0f;  // weights have long been zero there
  const float octaves = __fmul_rn(__fsub_rn(score, scale.best), scale.octaves);
  // NaN, infinitely far times no octaves at all, is sent there too.
  const float exponent = octaves > kLowest ? octaves : kLowest;
  const int whole = __float2int_rz(exponent);
  const float fraction = __fsub_rn(exponent, __int2float_rn(whole));
  float value = 1.09023225e-4f;
  value = MultiplyThenAdd(value, fraction, 1.27474824e-3f);
  value = MultiplyThenAdd(value, fraction, 9.57917981e-3f);
  value = MultiplyThenAdd(value, fraction, 5.54907583e-2f);
  value = MultiplyThenAdd(value, fraction, 2.40224361e-1f);
  value = MultiplyThenAdd(value, fraction, 6.93147063e-1f);
  value = MultiplyThenAdd(value, fraction, 1.0f);
  constexpr int kExponentBias = 127;
  constexpr int kMantissaBits = 23;
  const float power =
      __int_as_float((whole + kExponentBias + kWeightBits) << kMantissaBits);
  return __float2ull_rn(__fmul_rn(value, power));
}

// ln(sum of exp(logit - best)), of a sum of weights at temperature 1.
__device__ inline double LogOfWeights(uint64_t sum) {
  constexpr double kUnit = 1.0 / (uint64_t{1} << kWeightBits);
  return log(__dmul_rn(__ull2double_rn(sum), kUnit));
}

// The logarithm of a softmax's probability.
__device__ inline float Logprob(float logit, float best, double log_sum) {
  return __double2float_rn(__dsub_rn(
      __dsub_rn(static_cast<double>(logit), static_cast<double>(best)),
      log_sum));
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_SCORE_CUH_
