// How a request wants its tokens drawn, as its sender states it.
#ifndef WINNOW_ENGINE_REQUEST_SAMPLING_PARAMS_H_
#define WINNOW_ENGINE_REQUEST_SAMPLING_PARAMS_H_

#include <optional>
#include <vector>

#include "backend/contract/sampling.h"
#include "base/result.h"

namespace winnow {

// The most alternatives that are reported beside a token: OpenAI's limit.
inline constexpr int kMaxTopLogprobs = 20;
// The most tokens that one request may bias.
inline constexpr int kMaxBiasedTokens = 1024;

// A closed interval.
struct SamplingRange {
  float least = 0;
  float most = 0;
};
inline constexpr SamplingRange kTemperatures = {0, 100};
inline constexpr SamplingRange kProbabilities = {0, 1};  // top_p and min_p
inline constexpr SamplingRange kRepetitionPenalties = {0.01f, 100};

struct SamplingParams {
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  int top_k = 0;  // 0: all
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<TokenBias> logit_bias = {};
  uint64_t seed = 0;
  std::optional<int> logprobs = {};  // how many alternatives; none: no logprobs
};

// Whether every field is in range; the error names field, limit and value.
Status Validate(const SamplingParams& params, int vocab_size);

// True where the tokens seen so far matter to the draw.
bool HasPenalties(const SamplingParams& params);

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_SAMPLING_PARAMS_H_
