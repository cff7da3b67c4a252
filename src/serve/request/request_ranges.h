// The ranges of numbers in a request. Readers and the OpenAPI document share
// them.
#ifndef WINNOW_SERVE_REQUEST_REQUEST_RANGES_H_
#define WINNOW_SERVE_REQUEST_REQUEST_RANGES_H_

#include <cstddef>
#include <cstdint>

#include "engine/request/sampling_params.h"
#include "model/config/json_fields.h"

namespace winnow {

inline constexpr NumberRange kTemperatureRange = {kTemperatures.least,
                                                  kTemperatures.most};
inline constexpr NumberRange kShareRange = {kProbabilities.least,
                                            kProbabilities.most};
inline constexpr NumberRange kPenaltyRange = {-2, 2};
inline constexpr NumberRange kRepetitionPenaltyRange = {
    kRepetitionPenalties.least, kRepetitionPenalties.most};
inline constexpr NumberRange kBiasRange = {-100, 100};
inline constexpr IntegerRange kTopKRange = {-1, INT32_MAX};
inline constexpr IntegerRange kTopLogprobsRange = {0, kMaxTopLogprobs};
inline constexpr IntegerRange kSeedRange = {INT64_MIN, INT64_MAX};
inline constexpr IntegerRange kPriorityRange = {INT32_MIN, INT32_MAX};
inline constexpr NumberRange kTimeoutRange = {0.001, 86400};  // seconds
inline constexpr IntegerRange kMaxTokensRange = {1, INT32_MAX};
inline constexpr IntegerRange kMinTokensRange = {0, INT32_MAX};

inline constexpr size_t kMaxPrompts = 256;
inline constexpr size_t kMaxBadWords = 256;
inline constexpr size_t kMaxBadWordBytes = 256;
inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 128;
inline constexpr size_t kMaxToolCalls = 128;  // in one message

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_RANGES_H_
