// AnswerStyle: the form in which a route sends its answers.
#ifndef WINNOW_SERVE_ANSWER_ANSWER_STYLE_H_
#define WINNOW_SERVE_ANSWER_ANSWER_STYLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/selection/read_ranges.h"
#include "serve/request/api_error.h"
#include "serve/request/request_fields.h"

namespace winnow {

// The values that all pieces of one answer share.
struct AnswerIdentity {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string id = {};
  std::string model = {};
  int64_t created_unix_s = 0;
};

// A token in the form of log probabilities.
struct ShownToken {
  int32_t token_id = 0;
  std::string text = {};    // its part of the answer's text
  std::string bytes = {};   // its own bytes
  bool is_skipped = false;  // left out of the text, as special tokens are
  bool is_open = false;     // a character of its text is unfinished
  float logprob = 0;        // NaN: nothing precedes it
  // The likely alternatives; `text` as if each had come.
  std::vector<ShownToken> top = {};
};

// A token of a watched answer: the ranges that it read, and its text.
struct ShownReads {
  std::shared_ptr<const TokenReads> reads;
  std::string text;
};

struct AnswerUsage {
  int64_t num_prompt_tokens = 0;
  int64_t num_generated_tokens = 0;
  int64_t num_thought_tokens = 0;  // included above
  int64_t num_cached_tokens = 0;
  int64_t num_tokens_read = 0;
};

struct ShownCall {
  std::string id;
  int index = 0;  // among the calls of its choice
  std::string name;
  std::string arguments_json;  // an object
};

// Text, a thought, or a call.
struct ShownPart {
  std::string text = {};
  bool is_thought = false;
  std::optional<ShownCall> call = {};
};

// Appends text to the last part if that is of the same kind, or else adds a
// part.
void AddText(const std::string& text, bool is_thought,
             std::vector<ShownPart>& parts);

// One of several answers, or a piece of it with everything since the last
// piece.
struct ShownChoice {
  int index = 0;
  std::vector<ShownPart> parts = {};
  // Null without log probabilities. `text_offset` counts the characters of the
  // answer before these tokens.
  const std::vector<ShownToken>* tokens = nullptr;
  int64_t text_offset = 0;
  // Null if token ids were not requested. The prompt's are sent once for each
  // choice.
  const std::vector<int32_t>* token_ids = nullptr;
  const std::vector<int32_t>* prompt_token_ids = nullptr;
  // "stop", "length" or "tool_calls"; empty: the answer continues.
  std::string_view finish_reason = {};
  std::string stop = {};               // the stop string that ended it, if any
  std::vector<ShownReads> reads = {};  // empty unless watched
  // Of this answer so far.
  int64_t num_prompt_tokens = 0;
  int64_t num_generated_tokens = 0;
  int64_t num_cached_tokens = 0;

  std::string Text() const;  // of all parts except thoughts
  std::string Thoughts() const;
};

// One answer to one client. Calls are either Whole, or Begin, any number of
// Pieces, and End. Failure replaces the calls that are left; ErrorBody is for
// an answer that has not begun.
class AnswerStyle {
 public:
  virtual ~AnswerStyle() = default;

  virtual std::string Whole(const std::vector<ShownChoice>& choices,
                            const AnswerUsage& usage) = 0;
  // True if Begin sends the number of cached prompt tokens, which is known with
  // the first token. Otherwise Begin is called without it.
  virtual bool begins_with_cached() const = 0;
  // Events of a stream. When Begin is called, `usage` has the prompt's numbers
  // alone.
  virtual std::string Begin(int num_choices, const AnswerUsage& usage) = 0;
  virtual std::string Piece(const ShownChoice& piece) = 0;
  virtual std::string End(const AnswerUsage& usage) = 0;
  virtual std::string Failure(const ApiError& error) = 0;
  virtual std::string ErrorBody(const ApiError& error) const = 0;
};

// Nine letters and digits, distinct for every call of a process. Mistral's
// templates demand this form, and OpenAI's clients accept it.
std::string CallId(std::string_view answer_id, int choice, int call);

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_ANSWER_STYLE_H_
