#include "engine/request/sampling_params.h"

#include <unordered_set>

namespace winnow {
namespace {

// In float32, as the value came: as a double it would be shown with digits
// that nobody wrote.
Status InRange(std::string_view field, float value, SamplingRange range) {
  if (value >= range.least && value <= range.most) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument, "{} must be in [{}, {}], is {}",
                   field, range.least, range.most, value);
}

Status ValidateBias(const std::vector<TokenBias>& bias, int vocab_size) {
  if (bias.size() > kMaxBiasedTokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "logit_bias must name at most {} tokens, names {}",
                     kMaxBiasedTokens, bias.size());
  }
  std::unordered_set<int32_t> seen;
  for (const TokenBias& entry : bias) {
    if (entry.token_id < 0 || entry.token_id >= vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias token must be in [0, {}], is {}",
                       vocab_size - 1, entry.token_id);
    }
    if (!seen.insert(entry.token_id).second) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias names token {} twice", entry.token_id);
    }
    RETURN_IF_ERROR(InRange("logit_bias", entry.bias, {-100, 100}));
  }
  return Ok{};
}

}  // namespace

Status Validate(const SamplingParams& params, int vocab_size) {
  RETURN_IF_ERROR(InRange("temperature", params.temperature, kTemperatures));
  RETURN_IF_ERROR(InRange("top_p", params.top_p, kProbabilities));
  RETURN_IF_ERROR(InRange("min_p", params.min_p, kProbabilities));
  if (params.top_k < 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "top_k must be at least 0 (0: all), is {}", params.top_k);
  }
  RETURN_IF_ERROR(InRange("repetition_penalty", params.repetition_penalty,
                          kRepetitionPenalties));
  RETURN_IF_ERROR(
      InRange("presence_penalty", params.presence_penalty, {-2, 2}));
  RETURN_IF_ERROR(
      InRange("frequency_penalty", params.frequency_penalty, {-2, 2}));
  if (params.logprobs.value_or(0) < 0 ||
      params.logprobs.value_or(0) > kMaxTopLogprobs) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "logprobs must be in [0, {}], is {}", kMaxTopLogprobs,
                     *params.logprobs);
  }
  return ValidateBias(params.logit_bias, vocab_size);
}

bool HasPenalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

}  // namespace winnow
