// What OpenAI-compatible servers answer, read as far as a load asks.
#ifndef WINNOW_LOAD_ANSWER_JSON_H_
#define WINNOW_LOAD_ANSWER_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

enum class AnswerStyle { kCompletion, kChat };

// A whole answer, or one event of a stream.
struct AnswerPiece {
  std::string text;         // of the first choice; a chat's reasoning left out
  bool has_tokens = false;  // text, reasoning, or a part of a tool's call
  bool finished = false;    // the first choice has a reason to end
  std::optional<int64_t> prompt_tokens = {};
  std::optional<int64_t> completion_tokens = {};
  std::optional<int64_t> cached_tokens = {};
};

// `streamed`: the JSON is one event's data. Fails with kCorrupt where it is
// not what the style has, with kIo and the server's words where it is an error
// that the server tells.
Result<AnswerPiece> ReadAnswerPiece(AnswerStyle style, bool streamed,
                                    std::string_view json);

// The server's words in the body of an answer that is none (status 400, 500):
// error.message, message or detail of its JSON, else how the body begins.
std::string ErrorWords(std::string_view body);

// The name of the first model that GET /v1/models lists; empty where `json`
// is not such a list.
std::string FirstModelName(std::string_view json);

}  // namespace winnow

#endif  // WINNOW_LOAD_ANSWER_JSON_H_
