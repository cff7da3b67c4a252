#include "engine/request_limits.h"

#include <algorithm>
#include <iterator>

#include "base/ids.h"
#include "base/size_text.h"
#include "engine/engine_options.h"

namespace winnow {

Status RequestLimits::CheckTokens(std::string_view field,
                                  const std::vector<int32_t>& tokens) const {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} token must be in [0, {}], is {}", field,
                       vocab_size - 1, token);
    }
  }
  return Ok{};
}

Status RequestLimits::CheckSelector(int selector) const {
  if (selector < num_selectors) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument,
                   "selector must be below {} (of the engine's), is {}",
                   num_selectors, selector);
}

Status RequestLimits::CheckLength(int64_t num_tokens,
                                  int64_t max_tokens) const {
  if (num_tokens + max_tokens - 1 > max_model_len) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt and max-tokens, but for the last token, must fit "
                     "the context of {} tokens (max-model-len), are {} + {}",
                     max_model_len, num_tokens, max_tokens);
  }
  return Ok{};
}

Status RequestLimits::CheckRoom(int64_t num_tokens, int64_t max_tokens,
                                int64_t num_pages_needed) const {
  RETURN_IF_ERROR(CheckLength(num_tokens, max_tokens));
  if (num_pages_needed > num_pages) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "KV of {} tokens (a prompt of {} and max-tokens) needs "
                     "{}, device-kv holds {}",
                     num_tokens + max_tokens - 1, num_tokens,
                     FormatBytes(num_pages_needed * page_bytes),
                     FormatBytes(num_pages * page_bytes));
  }
  return Ok{};
}

// What a prefix's rows said is gone when a request shares them.
Status RequestLimits::CheckScoring(const Request& request) const {
  if (!request.prompt_logprobs) return Ok{};
  const int num_top = *request.prompt_logprobs;
  if (num_top < 0 || num_top > kMaxTopLogprobs) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt-logprobs must be in [0, {}], is {}",
                     kMaxTopLogprobs, num_top);
  }
  if (!scores_prompts || request.prefix) {
    return MakeError(
        ErrorCode::kInvalidArgument, "prompt-logprobs must be absent {}, is {}",
        request.prefix ? "beside a prefix" : "where max-scored-rows is 0",
        num_top);
  }
  return Ok{};
}

Status RequestLimits::Check(const Request& request) const {
  if (request.prompt.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt must have at least 1 token, has 0");
  }
  RETURN_IF_ERROR(CheckPositive("max-tokens", request.max_tokens));
  RETURN_IF_ERROR(CheckTokens("prompt", request.prompt));
  RETURN_IF_ERROR(CheckTokens("forced", request.forced_tokens));
  RETURN_IF_ERROR(CheckTokens("allowed", request.allowed_token_ids));
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "min-tokens must be in [0, {}] (max-tokens), is {}",
                     request.max_tokens, request.min_tokens);
  }
  if (std::ssize(request.forced_tokens) > request.max_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "forced tokens must be at most max-tokens ({}), are {}",
                     request.max_tokens, request.forced_tokens.size());
  }
  if (request.constraint && !request.forced_tokens.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "forced tokens must be none beside a constraint, are {}",
                     request.forced_tokens.size());
  }
  if (request.cache_salt.size() > kMaxCacheSaltBytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cache_salt must be at most {} bytes, is {}",
                     kMaxCacheSaltBytes, request.cache_salt.size());
  }
  RETURN_IF_ERROR(Validate(request.sampling, vocab_size));
  RETURN_IF_ERROR(CheckScoring(request));
  RETURN_IF_ERROR(CheckLength(std::ssize(request.prompt), request.max_tokens));
  return CheckSelector(request.selector);
}

Status RequestLimits::CheckRoom(const Request& request) const {
  if (request.prefix) return Ok{};  // A fork's room is kept by its prefix.
  const int64_t num_tokens = std::ssize(request.prompt);
  return CheckRoom(num_tokens, request.max_tokens,
                   PagesFor(num_tokens + request.max_tokens - 1));
}

Status RequestLimits::Check(const Prefix& prefix) const {
  const int64_t num_tokens = std::ssize(prefix.tokens);
  if (num_tokens == 0 || prefix.max_length < num_tokens + 2) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prefix must have at least 1 token and a max_length of 2 "
                     "more, has {} and {}",
                     num_tokens, prefix.max_length);
  }
  RETURN_IF_ERROR(CheckTokens("prefix", prefix.tokens));
  RETURN_IF_ERROR(CheckSelector(prefix.selector));
  // A fork shares the full pages.
  const int64_t num_pages_needed = PagesFor(num_tokens) +
                                   PagesFor(int64_t{prefix.max_length} - 1) -
                                   num_tokens / kPageTokens;
  return CheckRoom(num_tokens, prefix.max_length - num_tokens,
                   num_pages_needed);
}

Status RequestLimits::CheckFork(const Request& request,
                                const Sequence& prefix) {
  const auto& tokens = prefix.tokens();
  CHECK(request.prompt.size() > tokens.size() &&
            std::equal(tokens.begin(), tokens.end(), request.prompt.begin()),
        "prompt of {} tokens does not begin with the {} of prefix={}",
        request.prompt.size(), tokens.size(), prefix.id().value());
  const int64_t num_tokens = std::ssize(request.prompt);
  const int64_t num_behind = num_tokens - std::ssize(tokens);
  if (request.num_question_tokens > num_behind) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "question must lie behind the prefix, in the last {} "
                     "tokens of the prompt, has {}",
                     num_behind, request.num_question_tokens);
  }
  const int64_t max_length = std::ssize(tokens) + prefix.request().max_tokens;
  if (num_tokens + request.max_tokens > max_length) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt and max-tokens must fit the {} tokens that the "
                     "prefix has room for, are {} + {}",
                     max_length, num_tokens, request.max_tokens);
  }
  return Ok{};
}

}  // namespace winnow
