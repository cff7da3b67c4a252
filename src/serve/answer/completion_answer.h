// CompletionAnswer: what the engine generates for one HTTP request, as the
// client is to read it.
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
  std::string id = {};  // of the answer, for those of its calls
  bool stream = false;
  bool with_logprobs = false;
  bool one_call = false;        // an answer ends with its first
  bool shows_generated = true;  // else what is echoed is all
  bool shows_thoughts = true;
  // Special tokens that are shown, as they are parts of calls or thoughts. Not
  // empty: all others are left out here.
  std::vector<int32_t> marker_ids = {};
  // Tokens that end an answer and are not shown, special or not.
  std::vector<int32_t> end_ids = {};
  std::vector<std::string> stops = {};
  std::string prompt_field = {};  // what a request that is too large is told of
  // Once each, whatever the number of answers to it.
  int64_t num_prompt_tokens = 0;
  int answers_per_prompt = 1;
  HttpHeaders headers = {};
  // The engine looks at it between steps; the answer, before its last part.
  std::optional<Deadline> deadline = {};
  // What is said of it when it is over.
  std::shared_ptr<RequestRecord> record = std::make_shared<RequestRecord>();
};

// The prompt that an answer begins with, where it is asked for.
struct EchoedPrompt {
  std::string text;
  std::vector<int32_t> token_ids = {};  // of the prompt
};

// One of the answers: where its tokens come from, and what makes text of them.
struct AnswerSource {
  Ticket ticket{};
  std::shared_ptr<TokenFeed> feed;
  AnswerText text;
  int64_t num_prompt_tokens = 0;
  std::optional<ThoughtSplitter> thoughts = {};  // none: all is said
  std::optional<ToolCallParser> calls = {};      // none: all is text
  std::optional<EchoedPrompt> echo = {};
  // Told, as are those of the answer; null: neither is.
  std::shared_ptr<const std::vector<int32_t>> prompt_token_ids = nullptr;
};

// Owns the readers' ends of its requests. Tokens become text here, on the
// connection's thread, not on the engine's. A request whose text is at its end,
// or whose client has gone, is cancelled.
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
  // Of an answer, what one event tells.
  struct Piece {
    std::vector<ShownPart> parts = {};
    std::vector<ShownToken> tokens = {};
    std::vector<int32_t> token_ids = {};  // where they are told
    std::vector<ShownReads> reads = {};
    int64_t num_tokens = 0;  // up to its end
  };
  struct Choice {
    AnswerSource source;
    int index = 0;
    bool accepted = false;
    bool started = false;  // its first token has come
    bool ended = false;    // the engine knows it no more, or is not waited for
    bool told = false;     // its end has been sent
    std::string_view finish_reason = {};
    // What has come and was not sent; of an answer that does not stream, all.
    // Before it, in a stream, what is to have events of its own.
    Piece piece = {};
    std::vector<Piece> earlier = {};
    int num_calls = 0;            // also of those that were sent
    TokenTexts token_texts = {};  // of tokens that are to come there
    bool told_prompt = false;     // its ids
    int64_t text_offset = 0;      // of the tokens that come next
    int64_t num_thought_tokens = 0;
    int64_t num_cached_tokens = 0;
    int64_t num_tokens_read = 0;
  };

  static bool IsEmpty(const Piece& piece);
  void Drain(Choice& choice);
  void TakeToken(Choice& choice, const GeneratedToken& token);
  void TakeStart(Choice& choice, const RequestStart& start);
  // Of the prompt what an answer begins with; `scored` as GeneratedToken has
  // it.
  void TakeEcho(Choice& choice, const std::vector<GeneratedToken>* scored);
  void TakeText(Choice& choice, const std::string& text);
  // Where log probabilities are told: before its text is taken, and once
  // `piece` of the answer's text is certain.
  void AddToken(Choice& choice, const GeneratedToken& token);
  void MoveTokens(Choice& choice, std::string_view piece) const;
  void MoveLastTokens(Choice& choice) const;
  void TakePieces(Choice& choice, const std::vector<ThoughtPiece>& pieces);
  // What is no thought.
  void TakeSaid(Choice& choice, const std::string& text);
  // No text will come.
  void FinishText(Choice& choice);
  void TakeParts(Choice& choice, std::vector<AnswerPart> parts);
  // The engine goes on until it hears of it; that is nobody's any more.
  void StopEarly(Choice& choice);
  void End(Choice& choice, const Completion& completion);
  // The deadline is over, and with it what the engine may take to tell.
  void BeLate();
  bool IsShown(int32_t token_id) const;
  void Fail(int status, const std::string& message);
  void Refuse(const Error& error);
  AnswerUsage Usage() const;
  // `piece` lasts as long as what is shown, which has its parts.
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
  bool opened_ = false;  // the events before the first piece have
  std::optional<ApiError> error_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_COMPLETION_ANSWER_H_
