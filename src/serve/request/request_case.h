// Routes and rules for tests of requests.
#ifndef WINNOW_SERVE_REQUEST_REQUEST_CASE_H_
#define WINNOW_SERVE_REQUEST_REQUEST_CASE_H_

#include "serve/request/completion_request.h"

namespace winnow {

inline constexpr Endpoint kChat = Endpoint::kChatCompletions;
inline constexpr Endpoint kEndpoints[] = {
    Endpoint::kCompletions, kChat, Endpoint::kResponses, Endpoint::kMessages,
    Endpoint::kMessageTokens};

inline RequestRules Rules() {
  return {.defaults = {}, .json = {}, .max_n = 4, .vocab_size = 100};
}

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_CASE_H_
