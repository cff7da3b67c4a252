// Reads the answers of OpenAI-compatible servers, as far as a load needs them.
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
  std::string text;         // of the first choice, without a chat's reasoning
  bool has_tokens = false;  // text, reasoning, or a part of a tool's call
  bool finished = false;    // the first choice has a finish reason
  std::optional<int64_t> prompt_tokens = {};
  std::optional<int64_t> completion_tokens = {};
  std::optional<int64_t> cached_tokens = {};
};

// `streamed`: `json` is the data of one event. Fails with kCorrupt if it does
// not have the style's form. Fails with kIo and the server's message if it is
// an error.
Result<AnswerPiece> ReadAnswerPiece(AnswerStyle style, bool streamed,
                                    std::string_view json);

// The server's message in the body of an error (status 400, 500):
// error.message, message or detail of its JSON, else the beginning of the body.
std::string ErrorWords(std::string_view body);

// The name of the first model of a GET /v1/models answer; empty if `json` is no
// such list.
std::string FirstModelName(std::string_view json);

}  // namespace winnow

#endif  // WINNOW_LOAD_ANSWER_JSON_H_
