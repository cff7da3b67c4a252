// CompletionAnswer: turns the engine's tokens for one HTTP request into the
// client's answer.
#ifndef WINNOW_SERVE_ANSWER_COMPLETION_ANSWER_H_
#define WINNOW_SERVE_ANSWER_COMPLETION_ANSWER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/answer/answer_style.h"
#include "serve/answer/request_log.h"
#include "serve/answer/token_texts.h"
#include "serve/http/http_message.h"
#include "serve/loop/engine_loop.h"
#include "serve/loop/token_feed.h"
#include "serve/request/api_error.h"
#include "text/tokenize/answer_text.h"
#include "text/tokenize/tokenizer.h"
#include "text/tools/thoughts.h"
#include "text/tools/tool_calls.h"

namespace winnow {

struct AnswerForm {
  std::unique_ptr<AnswerStyle> style = nullptr;
  std::string id = {};  // of the answer; ids of its calls derive from it
  bool stream = false;
  bool with_logprobs = false;
  bool one_call = false;        // an answer ends with its first call
  bool shows_generated = true;  // false: the echo is the whole answer
  bool shows_thoughts = true;
  // Special tokens to show, because they are parts of calls or thoughts. If not
  // empty, all other special tokens are left out here.
  std::vector<int32_t> marker_ids = {};
  // Tokens, special or not, that end an answer and are not shown.
  std::vector<int32_t> end_ids = {};
  std::vector<std::string> stops = {};
  // The field that an error names if the request is too large.
  std::string prompt_field = {};
  // Counted once for each prompt, however many answers it has.
  int64_t num_prompt_tokens = 0;
  int answers_per_prompt = 1;
  HttpHeaders headers = {};
  // The engine checks it between steps; the answer checks it before its last
  // part.
  std::optional<Deadline> deadline = {};
  // The log record of the request.
  std::shared_ptr<RequestRecord> record = std::make_shared<RequestRecord>();
};

// The prompt at the beginning of an answer, if echo was requested.
struct EchoedPrompt {
  std::string text;
  std::vector<int32_t> token_ids = {};  // of the prompt
};

// The source of one answer: its tokens, and the parsers that turn them into
// text.
struct AnswerSource {
  Ticket ticket{};
  std::shared_ptr<TokenFeed> feed;
  AnswerText text;
  int64_t num_prompt_tokens = 0;
  // None: no thoughts are separated.
  std::optional<ThoughtSplitter> thoughts = {};
  std::optional<ToolCallParser> calls = {};  // none: no calls are parsed
  std::optional<EchoedPrompt> echo = {};
  // Set if the ids of prompt and answer are sent.
  std::shared_ptr<const std::vector<int32_t>> prompt_token_ids = nullptr;
};

// Owns the readers' ends of its requests. Turns tokens into text on the
// connection's thread, not on the engine's. Cancels a request whose text has
// ended or whose client has disconnected.
class CompletionAnswer : public HttpAnswer {
 public:
  using Cancel = std::function<void(Ticket)>;

  // REQUIRES: a style and at least one source; tokenizer and metrics outlive
  // this.
  CompletionAnswer(AnswerForm form, std::vector<AnswerSource> sources,
                   Cancel cancel, const Tokenizer& tokenizer, Metrics& metrics);
  ~CompletionAnswer() override;

  void SetWake(std::function<void()> wake) override;
  HttpPart Take() override;
  std::optional<std::chrono::steady_clock::time_point> due() const override;

 private:
  // The content of one event of an answer.
  struct Piece {
    std::vector<ShownPart> parts = {};
    std::vector<ShownToken> tokens = {};
    std::vector<int32_t> token_ids = {};  // if ids are sent
    std::vector<ShownReads> reads = {};
    int64_t num_tokens = 0;  // generated up to its end
  };
  struct Choice {
    AnswerSource source;
    int index = 0;
    bool accepted = false;
    bool started = false;  // the first token has arrived
    bool ended = false;    // the engine has ended it, or its end is not awaited
    bool told = false;     // the end has been sent
    std::string_view finish_reason = {};
    // Content that has arrived and was not sent; without a stream, the whole
    // answer. `earlier` precedes it: content of a stream that needs events of
    // its own.
    Piece piece = {};
    std::vector<Piece> earlier = {};
    int num_calls = 0;            // sent calls included
    TokenTexts token_texts = {};  // of tokens in later pieces
    bool told_prompt = false;     // the prompt's ids have been sent
    int64_t text_offset = 0;      // of the next tokens
    int64_t num_thought_tokens = 0;
    int64_t num_cached_tokens = 0;
    int64_t num_tokens_read = 0;
  };

  static bool IsEmpty(const Piece& piece);
  void Drain(Choice& choice);
  void TakeToken(Choice& choice, const GeneratedToken& token);
  void TakeStart(Choice& choice, const RequestStart& start);
  // Takes the prompt's part of an answer; `scored` is as in GeneratedToken.
  void TakeEcho(Choice& choice, const std::vector<GeneratedToken>* scored);
  void TakeText(Choice& choice, const std::string& text);
  // With log probabilities: AddToken before the token's text is taken,
  // MoveTokens once `piece` of the answer's text is certain.
  void AddToken(Choice& choice, const GeneratedToken& token);
  void MoveTokens(Choice& choice, std::string_view piece) const;
  void MoveLastTokens(Choice& choice) const;
  void TakePieces(Choice& choice, const std::vector<ThoughtPiece>& pieces);
  // Takes text outside thoughts.
  void TakeSaid(Choice& choice, const std::string& text);
  // Ends the text and takes the rest.
  void FinishText(Choice& choice);
  void TakeParts(Choice& choice, std::vector<AnswerPart> parts);
  // Ends the answer before the engine does. The engine runs on until it learns
  // of it; its further tokens are dropped.
  void StopEarly(Choice& choice);
  void End(Choice& choice, const Completion& completion);
  // The deadline and the engine's grace time (kMaxLateness) are over.
  void BeLate();
  bool IsShown(int32_t token_id) const;
  void Fail(int status, const std::string& message);
  void Refuse(const Error& error);
  AnswerUsage Usage() const;
  // REQUIRES: `piece` outlives the result, which refers to its parts.
  ShownChoice Show(Choice& choice, Piece& piece, bool is_last) const;
  std::string Tell(Choice& choice, Piece piece, bool is_last);
  void CountAnswer(int status);
  HttpPart Failure();
  HttpPart Whole();
  HttpPart Events();
  bool AllEnded() const;
  bool AnyStarted() const;

  const AnswerForm form_;
  const Cancel cancel_;
  const Tokenizer& tokenizer_;
  Metrics& metrics_;
  std::vector<Choice> choices_;
  bool begun_ = false;   // the head has been sent
  bool opened_ = false;  // the events before the first piece have been sent
  std::optional<ApiError> error_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_COMPLETION_ANSWER_H_
