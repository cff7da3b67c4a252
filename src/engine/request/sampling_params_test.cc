#include "engine/request/sampling_params.h"

#include <gtest/gtest.h>

#include <cmath>

namespace winnow {
namespace {

std::string ErrorOf(const SamplingParams& params) {
  const Status status = Validate(params, /*vocab_size=*/100);
  return status.ok() ? "" : status.error().message;
}

TEST(SamplingParamsTest, DefaultsAreValid) { EXPECT_EQ(ErrorOf({}), ""); }

TEST(SamplingParamsTest, ErrorsNameFieldLimitAndValue) {
  EXPECT_EQ(ErrorOf({.temperature = -0.5f}),
            "temperature must be in [0, 100], is -0.5");
  EXPECT_EQ(ErrorOf({.top_p = 1.5f}), "top_p must be in [0, 1], is 1.5");
  EXPECT_EQ(ErrorOf({.min_p = NAN}), "min_p must be in [0, 1], is nan");
  EXPECT_EQ(ErrorOf({.top_k = -1}), "top_k must be at least 0 (0: all), is -1");
  EXPECT_EQ(ErrorOf({.repetition_penalty = 0}),
            "repetition_penalty must be in [0.01, 100], is 0");
  EXPECT_EQ(ErrorOf({.repetition_penalty = 0.01f}), "");
  EXPECT_EQ(ErrorOf({.top_p = -0.1f}), "top_p must be in [0, 1], is -0.1");
  EXPECT_EQ(ErrorOf({.presence_penalty = 3}),
            "presence_penalty must be in [-2, 2], is 3");
  EXPECT_EQ(ErrorOf({.logprobs = 21}), "logprobs must be in [0, 20], is 21");
}

TEST(SamplingParamsTest, BiasNamesKnownTokensOnce) {
  SamplingParams params;
  params.logit_bias = {{.token_id = 100, .bias = 1}};
  EXPECT_EQ(ErrorOf(params), "logit_bias token must be in [0, 99], is 100");
  params.logit_bias = {{.token_id = 3, .bias = 1}, {.token_id = 3, .bias = 2}};
  EXPECT_EQ(ErrorOf(params), "logit_bias names token 3 twice");
  params.logit_bias = {{.token_id = 3, .bias = -101}};
  EXPECT_EQ(ErrorOf(params), "logit_bias must be in [-100, 100], is -101");
}

TEST(SamplingParamsTest, KnowsWhenThePastMatters) {
  EXPECT_FALSE(HasPenalties({}));
  EXPECT_TRUE(HasPenalties({.repetition_penalty = 1.1f}));
  EXPECT_TRUE(HasPenalties({.frequency_penalty = 0.5f}));
}

}  // namespace
}  // namespace winnow
