// AnswerStyle: how an answer is told, which the routes do differently.
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

// What all pieces of one answer say alike.
struct AnswerIdentity {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string id = {};
  std::string model = {};
  int64_t created_unix_s = 0;
};

// A token as log probabilities show it.
struct ShownToken {
  int32_t token_id = 0;
  std::string text = {};    // that the answer's text has of it
  std::string bytes = {};   // its own
  bool is_skipped = false;  // left out of the text, as special ones are
  bool is_open = false;     // a character of its text is unfinished
  float logprob = 0;        // NaN: nothing comes before it
  // What might have come in its place; `text` as if it had.
  std::vector<ShownToken> top = {};
};

// A token of a watched answer: what it was drawn from, and what it added.
struct ShownReads {
  std::shared_ptr<const TokenReads> reads;
  std::string text;
};

struct AnswerUsage {
  int64_t num_prompt_tokens = 0;
  int64_t num_generated_tokens = 0;
  int64_t num_thought_tokens = 0;  // among these
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

// To the last part, where that is of the same kind.
void AddText(const std::string& text, bool is_thought,
             std::vector<ShownPart>& parts);

// One answer of several, or a piece of it: what has come since the last.
struct ShownChoice {
  int index = 0;
  std::vector<ShownPart> parts = {};
  // Null where log probabilities were not asked for. `text_offset`: characters
  // of the answer before these tokens.
  const std::vector<ShownToken>* tokens = nullptr;
  int64_t text_offset = 0;
  // Null where ids were not asked for. The prompt's are told once a choice.
  const std::vector<int32_t>* token_ids = nullptr;
  const std::vector<int32_t>* prompt_token_ids = nullptr;
  // "stop", "length" or "tool_calls"; empty: it goes on.
  std::string_view finish_reason = {};
  std::string stop = {};               // the string that ended it, if one did
  std::vector<ShownReads> reads = {};  // none unless watched
  // Of this answer alone, up to here.
  int64_t num_prompt_tokens = 0;
  int64_t num_generated_tokens = 0;
  int64_t num_cached_tokens = 0;

  std::string Text() const;  // of all parts, but for thoughts
  std::string Thoughts() const;
};

// One answer to one client: either Whole, or Begin, any number of Pieces, and
// End; Failure in place of what is left. ErrorBody where nothing has been said.
class AnswerStyle {
 public:
  virtual ~AnswerStyle() = default;

  virtual std::string Whole(const std::vector<ShownChoice>& choices,
                            const AnswerUsage& usage) = 0;
  // Whether Begin tells how much of the prompt was cached, which is known with
  // the first token; else it is called without.
  virtual bool begins_with_cached() const = 0;
  // Events. Of `usage` nothing but the prompt is known when it begins.
  virtual std::string Begin(int num_choices, const AnswerUsage& usage) = 0;
  virtual std::string Piece(const ShownChoice& piece) = 0;
  virtual std::string End(const AnswerUsage& usage) = 0;
  virtual std::string Failure(const ApiError& error) = 0;
  virtual std::string ErrorBody(const ApiError& error) const = 0;
};

// Nine letters and digits, other ones for every call that a process makes: as
// Mistral's templates demand, and OpenAI's clients do not mind.
std::string CallId(std::string_view answer_id, int choice, int call);

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_ANSWER_STYLE_H_
