// The JSON of completions, as OpenAI's clients read it.
#ifndef WINNOW_SERVE_COMPLETION_JSON_H_
#define WINNOW_SERVE_COMPLETION_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/request_fields.h"

namespace winnow {

// What all pieces of one answer say alike.
struct AnswerIdentity {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string id;
  std::string model;
  int64_t created_unix_s = 0;
};

// A token as log probabilities show it.
struct ShownToken {
  std::string text;
  float logprob = 0;
  std::vector<std::pair<std::string, float>> top = {};
};

struct AnswerUsage {
  int64_t num_prompt_tokens = 0;
  int64_t num_generated_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_tokens_read = 0;
};

// One answer of several, or a piece of it.
struct ShownChoice {
  int index = 0;
  std::string text;
  // Null where log probabilities were not asked for. `text_offset`: characters
  // of the answer before these tokens.
  const std::vector<ShownToken>* tokens = nullptr;
  int64_t text_offset = 0;
  std::string_view finish_reason = {};  // empty: it goes on
};

// The whole answer.
std::string CompletionJson(const AnswerIdentity& identity,
                           const std::vector<ShownChoice>& choices,
                           const AnswerUsage& usage);
// An event of a stream: a piece of one choice; `usage_is_null` where a later
// event will have it. The first of a chat's choice has its role.
std::string ChoiceEvent(const AnswerIdentity& identity,
                        const ShownChoice& choice, bool usage_is_null);
std::string RoleEvent(const AnswerIdentity& identity, int index,
                      bool usage_is_null);
std::string UsageEvent(const AnswerIdentity& identity,
                       const AnswerUsage& usage);

struct ApiError {
  int status = 400;
  std::string message = {};
  std::string field = {};  // empty: about none
  std::string code = {};   // empty: by status
};

// {"error": {...}}, and the same as an event where a stream has begun.
std::string ErrorJson(const ApiError& error);
std::string ErrorEvent(const ApiError& error);
// "data: TEXT" and an empty line. REQUIRES: no line break in it.
std::string SseEvent(std::string_view text);

// Characters, not bytes. REQUIRES: UTF-8.
int64_t NumCharacters(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_SERVE_COMPLETION_JSON_H_
