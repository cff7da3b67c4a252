#include "engine/request_limits.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/testing/null_observer.h"

namespace winnow {
namespace {

constexpr int kVocab = 100, kContext = 200;
constexpr RequestLimits kRequestLimits = {.vocab_size = kVocab,
                                          .max_model_len = kContext,
                                          .num_selectors = 2,
                                          .num_pages = 4,
                                          .page_bytes = 1024};

Request PlainRequest(int num_tokens, int max_tokens) {
  Request request;
  request.prompt.assign(static_cast<size_t>(num_tokens), kVocab - 1);
  request.max_tokens = max_tokens;
  return request;
}

Error ErrorOf(const Status& status) {
  EXPECT_FALSE(status.ok());
  return status.ok() ? Error{} : status.error();
}

// The message where `change` is made to a request that keeps within limits.
std::string MessageOf(const std::function<void(Request&)>& change) {
  Request request = PlainRequest(32, 33);
  EXPECT_TRUE(kRequestLimits.Check(request).ok());
  change(request);
  const Error error = ErrorOf(kRequestLimits.Check(request));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  return error.message;
}

TEST(RequestLimitsTest, AFieldOutOfRangeIsNamedWithLimitAndValue) {
  using R = Request;
  EXPECT_EQ(MessageOf([](R& r) { r.prompt.clear(); }),
            "prompt must have at least 1 token, has 0");
  EXPECT_EQ(MessageOf([](R& r) { r.max_tokens = 0; }),
            "max-tokens must be at least 1, is 0");
  EXPECT_EQ(MessageOf([](R& r) { r.prompt.back() = kVocab; }),
            "prompt token must be in [0, 99], is 100");
  EXPECT_EQ(MessageOf([](R& r) { r.prompt.front() = -1; }),
            "prompt token must be in [0, 99], is -1");
  EXPECT_EQ(MessageOf([](R& r) { r.forced_tokens = {0, INT32_MAX}; }),
            "forced token must be in [0, 99], is 2147483647");
  EXPECT_EQ(MessageOf([](R& r) { r.forced_tokens.resize(34); }),
            "forced tokens must be at most max-tokens (33), are 34");
  EXPECT_EQ(MessageOf([](R& r) {
              r.max_tokens = 4;
              r.min_tokens = 5;
            }),
            "min-tokens must be in [0, 4] (max-tokens), is 5");
  EXPECT_EQ(MessageOf([](R& r) {
              r.allowed_token_ids = {kVocab};
            }).find("allowed token must be in"),
            0u);
  EXPECT_EQ(MessageOf([](R& r) { r.cache_salt.resize(257, 'x'); }),
            "cache_salt must be at most 256 bytes, is 257");
  EXPECT_EQ(MessageOf([](R& r) {
              r.sampling.logit_bias = {{kVocab, 1.0f}};
            }).find("logit_bias"),
            0u);
  EXPECT_EQ(MessageOf([](R& r) { r.selector = 2; }),
            "selector must be below 2 (of the engine's), is 2");
}

TEST(RequestLimitsTest, WhatIsAtItsLimitIsWithin) {
  Request request = PlainRequest(32, 33);
  request.forced_tokens.assign(33, kVocab - 1);
  request.cache_salt.resize(256, 'x');
  request.selector = 1;
  EXPECT_TRUE(kRequestLimits.Check(request).ok());
}

// The last token that is generated is never fed: it needs no room.
TEST(RequestLimitsTest, ALengthFitsTheContextToTheToken) {
  EXPECT_TRUE(kRequestLimits.CheckLength(kContext, 1).ok());
  EXPECT_TRUE(kRequestLimits.CheckLength(150, 51).ok());
  const Error error = ErrorOf(kRequestLimits.CheckLength(150, 52));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message,
            "prompt and max-tokens, but for the last token, must fit the "
            "context of 200 tokens (max-model-len), are 150 + 52");
  // No sum of two that overflows.
  EXPECT_FALSE(kRequestLimits.CheckLength(INT32_MAX, INT32_MAX).ok());
}

TEST(RequestLimitsTest, AsManyPagesAsThereAreAreEnough) {
  EXPECT_TRUE(kRequestLimits.CheckRoom(PlainRequest(100, 29)).ok());
  const Error error = ErrorOf(kRequestLimits.CheckRoom(PlainRequest(100, 30)));
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(error.message,
            "KV of 129 tokens (a prompt of 100 and max-tokens) needs 5.0 KiB, "
            "device-kv holds 4.0 KiB");
  // A fork's room is kept by its prefix.
  Request fork = PlainRequest(100, 30);
  fork.prefix = SequenceId(1);
  EXPECT_TRUE(kRequestLimits.CheckRoom(fork).ok());
}

// One fork's pages besides its own, but for the full ones, which it shares.
TEST(RequestLimitsTest, APrefixHasRoomForAForkBesides) {
  const auto prefix = [](int num_tokens, int max_length) {
    return Prefix{
        .tokens = std::vector<int32_t>(static_cast<size_t>(num_tokens)),
        .max_length = max_length};
  };
  EXPECT_TRUE(kRequestLimits.Check(prefix(64, 129)).ok());  // 2 and 2
  EXPECT_EQ(ErrorOf(kRequestLimits.Check(prefix(64, 130))).code,
            ErrorCode::kResourceExhausted);
  EXPECT_TRUE(kRequestLimits.Check(prefix(33, 97)).ok());  // 2, and 3 less 1
  EXPECT_EQ(ErrorOf(kRequestLimits.Check(prefix(33, 98))).code,
            ErrorCode::kResourceExhausted);
  EXPECT_TRUE(kRequestLimits.Check(prefix(10, 12)).ok());
  EXPECT_EQ(ErrorOf(kRequestLimits.Check(prefix(10, 11))).message,
            "prefix must have at least 1 token and a max_length of 2 more, "
            "has 10 and 11");
  EXPECT_FALSE(kRequestLimits.Check(prefix(0, 12)).ok());
  Prefix wrong = prefix(10, 12);
  wrong.tokens[3] = kVocab;
  EXPECT_EQ(ErrorOf(kRequestLimits.Check(wrong)).message,
            "prefix token must be in [0, 99], is 100");
}

TEST(RequestLimitsTest, AForkKeepsWithinItsPrefix) {
  NullObserver nobody;
  const auto prefix = Sequence::MakePrefix(
      SequenceId(1), {.tokens = {1, 2, 3}, .max_length = 10}, {}, &nobody);
  Request fork;
  fork.prompt = {1, 2, 3, 4, 5};
  fork.max_tokens = 5;
  fork.num_question_tokens = 2;
  EXPECT_TRUE(RequestLimits::CheckFork(fork, *prefix).ok());
  fork.max_tokens = 6;
  EXPECT_EQ(ErrorOf(RequestLimits::CheckFork(fork, *prefix)).message,
            "prompt and max-tokens must fit the 10 tokens that the prefix has "
            "room for, are 5 + 6");
  fork.num_question_tokens = 3;
  EXPECT_EQ(ErrorOf(RequestLimits::CheckFork(fork, *prefix)).message,
            "question must lie behind the prefix, in the last 2 tokens of the "
            "prompt, has 3");
  fork.prompt[0] = 7;
  EXPECT_DEATH((void)RequestLimits::CheckFork(fork, *prefix),
               "does not begin with the 3 of prefix=1");
}

}  // namespace
}  // namespace winnow
