#include "serve/answer/completion_answer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "serve/answer/completion_json.h"

namespace winnow {
namespace {

// What a client asked for, its time, or what the server did.
int StatusOf(const std::optional<Error>& error) {
  if (!error) return 500;
  if (error->code == ErrorCode::kInvalidArgument) return 400;
  return error->code == ErrorCode::kCancelled ? 504 : 500;
}

// In a stream each token has an event of its own; but for a client that is so
// many behind, they share one.
constexpr size_t kMostEvents = 64;

}  // namespace

bool CompletionAnswer::IsEmpty(const Piece& piece) {
  return piece.parts.empty() && piece.tokens.empty() && piece.reads.empty() &&
         piece.token_ids.empty();
}

CompletionAnswer::CompletionAnswer(AnswerForm form,
                                   std::vector<AnswerSource> sources,
                                   Cancel cancel, const Tokenizer& tokenizer,
                                   Metrics& metrics)
    : form_(std::move(form)),
      cancel_(std::move(cancel)),
      tokenizer_(tokenizer),
      metrics_(metrics) {
  CHECK(!sources.empty() && form_.style != nullptr);
  for (AnswerSource& source : sources) {
    choices_.push_back({.source = std::move(source),
                        .index = static_cast<int>(choices_.size())});
  }
}

CompletionAnswer::~CompletionAnswer() {
  for (Choice& choice : choices_) {
    choice.source.feed->Leave();
    if (!choice.ended) cancel_(choice.source.ticket);
    if (choice.index > 0) continue;
    std::string_view reason = choice.finish_reason;
    if (reason.empty()) reason = "abort";
    form_.record->finish_reason = error_ ? "error" : reason;
  }
}

void CompletionAnswer::SetWake(std::function<void()> wake) {
  for (Choice& choice : choices_) choice.source.feed->SetWake(wake);
}

void CompletionAnswer::Fail(int status, const std::string& message) {
  if (error_) return;
  error_ = status == 504 ? LateError(message)
                         : ApiError{.status = status, .message = message};
}

// What is in range and is refused all the same is too large.
void CompletionAnswer::Refuse(const Error& error) {
  if (error_) return;
  if (error.code == ErrorCode::kIo) return Fail(503, error.message);
  Fail(400,
       fmt::format("request: field {}: {}", form_.prompt_field, error.message));
  error_->field = form_.prompt_field;
}

bool CompletionAnswer::IsShown(int32_t token_id) const {
  const auto is_in = [token_id](const std::vector<int32_t>& ids) {
    return std::ranges::find(ids, token_id) != ids.end();
  };
  const std::vector<int32_t>& markers = form_.marker_ids;
  if (is_in(markers)) return true;
  if (is_in(form_.end_ids)) return false;
  return markers.empty() || !tokenizer_.IsSpecial(token_id);
}

void CompletionAnswer::TakeParts(Choice& choice,
                                 std::vector<AnswerPart> parts) {
  for (AnswerPart& part : parts) {
    if (form_.one_call && choice.num_calls > 0) return;
    if (!part.call) {
      AddText(part.text, /*is_thought=*/false, choice.piece.parts);
      continue;
    }
    const int number = choice.num_calls++;
    choice.piece.parts.push_back(
        {.call = ShownCall{
             .id = CallId(form_.id, choice.index, number),
             .index = number,
             .name = std::move(part.call->name),
             .arguments_json = std::move(part.call->arguments_json)}});
  }
}

void CompletionAnswer::TakeText(Choice& choice, const std::string& text) {
  if (text.empty()) return;
  if (!choice.source.thoughts) return TakeSaid(choice, text);
  TakePieces(choice, choice.source.thoughts->Push(text));
}

void CompletionAnswer::TakePieces(Choice& choice,
                                  const std::vector<ThoughtPiece>& pieces) {
  for (const ThoughtPiece& piece : pieces) {
    if (!piece.is_thought) {
      TakeSaid(choice, piece.text);
    } else if (form_.shows_thoughts) {
      AddText(piece.text, /*is_thought=*/true, choice.piece.parts);
    }
  }
}

void CompletionAnswer::FinishText(Choice& choice) {
  MoveLastTokens(choice);
  if (choice.source.thoughts) {
    TakePieces(choice, choice.source.thoughts->Finish());
  }
  if (choice.source.calls) TakeParts(choice, choice.source.calls->Finish());
}

void CompletionAnswer::TakeSaid(Choice& choice, const std::string& text) {
  if (choice.source.calls) {
    TakeParts(choice, choice.source.calls->Push(text));
  } else {
    std::vector<AnswerPart> parts(1);
    parts.front().text = text;
    TakeParts(choice, std::move(parts));
  }
}

void CompletionAnswer::StopEarly(Choice& choice) {
  MoveLastTokens(choice);
  choice.finish_reason = choice.num_calls > 0 ? "tool_calls" : "stop";
  choice.source.feed->EndAtStop();
  cancel_(choice.source.ticket);
}

void CompletionAnswer::TakeEcho(Choice& choice,
                                const std::vector<GeneratedToken>* scored) {
  const EchoedPrompt echo = *std::exchange(choice.source.echo, std::nullopt);
  std::vector<AnswerPart> parts(1);
  parts.front().text = echo.text;
  TakeParts(choice, std::move(parts));
  if (scored == nullptr) return;
  auto tokens = PromptTokens(echo.text, echo.token_ids, *scored, tokenizer_);
  if (!tokens.ok()) return Fail(500, tokens.error().message);
  choice.piece.tokens = *std::move(tokens);
}

void CompletionAnswer::AddToken(Choice& choice, const GeneratedToken& token) {
  if (!form_.with_logprobs) return;
  Result<ShownToken> shown =
      ShowToken(token, [&](int32_t id) -> Result<TokenAddition> {
        ASSIGN_OR_RETURN(TokenAddition addition, choice.source.text.Peek(id));
        if (IsShown(id)) return addition;
        return TokenAddition{
            .text = "", .bytes = std::move(addition.bytes), .is_skipped = true};
      });
  if (!shown.ok()) return Fail(500, shown.error().message);
  choice.token_texts.Add(*std::move(shown));
}

void CompletionAnswer::MoveTokens(Choice& choice,
                                  std::string_view piece) const {
  if (!form_.with_logprobs) return;
  std::ranges::move(choice.token_texts.Told(piece),
                    std::back_inserter(choice.piece.tokens));
}

void CompletionAnswer::MoveLastTokens(Choice& choice) const {
  std::ranges::move(choice.token_texts.End(),
                    std::back_inserter(choice.piece.tokens));
}

void CompletionAnswer::TakeStart(Choice& choice, const RequestStart& start) {
  choice.started = true;
  choice.num_cached_tokens = start.num_cached_tokens;
  if (choice.index > 0) return;
  form_.record->num_cached_tokens = start.num_cached_tokens;
  form_.record->queue_ms = start.queue_ms;
  form_.record->first_token_ms = start.first_token_ms;
}

void CompletionAnswer::TakeToken(Choice& choice, const GeneratedToken& token) {
  if (token.start) TakeStart(choice, *token.start);
  if (choice.source.echo) TakeEcho(choice, token.prompt.get());
  if (!form_.shows_generated) return;
  ++choice.piece.num_tokens;
  ++form_.record->num_generated_tokens;
  AddToken(choice, token);
  if (choice.source.prompt_token_ids)
    choice.piece.token_ids.push_back(token.token_id);
  if (token.reads)
    choice.piece.reads.push_back({.reads = token.reads, .text = {}});
  if (!IsShown(token.token_id)) return MoveTokens(choice, "");
  const auto& thoughts = choice.source.thoughts;
  const bool was_thinking = thoughts && thoughts->thinks();
  const Result<std::string> piece = choice.source.text.Push(token.token_id);
  if (!piece.ok()) return Fail(500, piece.error().message);
  MoveTokens(choice, *piece);
  if (token.reads) choice.piece.reads.back().text = *piece;
  TakeText(choice, *piece);
  if (was_thinking || (thoughts && thoughts->thinks())) {
    ++choice.num_thought_tokens;
  }
  const bool stopped = choice.source.text.stopped();
  if (stopped) FinishText(choice);
  if (stopped || (form_.one_call && choice.num_calls > 0)) StopEarly(choice);
}

void CompletionAnswer::End(Choice& choice, const Completion& completion) {
  choice.ended = true;
  choice.num_cached_tokens = completion.num_cached_tokens;
  choice.num_tokens_read = completion.kv.num_tokens_read;
  if (choice.index == 0) {
    form_.record->num_cached_tokens = completion.num_cached_tokens;
    form_.record->queue_ms = completion.timing.queue_ms;
  }
  if (!choice.finish_reason.empty()) return;
  if (completion.reason == FinishReason::kError) {
    return Fail(StatusOf(completion.error),
                completion.error ? completion.error->message : "");
  }
  if (completion.reason == FinishReason::kCancelled) {
    return Fail(503, "the server ends");
  }
  if (!form_.shows_generated) {
    choice.finish_reason = "length";
    return;
  }
  const Result<std::string> rest = choice.source.text.Finish();
  if (!rest.ok()) return Fail(500, rest.error().message);
  MoveTokens(choice, *rest);
  TakeText(choice, *rest);
  FinishText(choice);
  choice.finish_reason = choice.source.text.stopped()
                             ? "stop"
                             : FinishReasonName(completion.reason);
  if (choice.finish_reason == "stop" && choice.num_calls > 0) {
    choice.finish_reason = "tool_calls";
  }
}

void CompletionAnswer::Drain(Choice& choice) {
  if (choice.ended) return;
  const FeedEvents events = choice.source.feed->Take();
  choice.accepted = choice.accepted || events.accepted;
  if (events.refused) {
    choice.ended = true;
    return Refuse(*events.refused);
  }
  const bool splits = form_.stream && events.tokens.size() <= kMostEvents;
  for (const GeneratedToken& token : events.tokens) {
    if (!choice.finish_reason.empty()) break;
    if (splits && !IsEmpty(choice.piece)) {
      const int64_t num_tokens = choice.piece.num_tokens;
      choice.earlier.push_back(std::exchange(choice.piece, {}));
      choice.piece.num_tokens = num_tokens;
    }
    TakeToken(choice, token);
  }
  if (events.overflowed && choice.finish_reason.empty()) {
    Fail(500,
         fmt::format("what the client lets lie unread must be at most {} "
                     "tokens, of a watched answer {} and {} ranges, is more",
                     TokenFeed::kMaxPendingTokens,
                     TokenFeed::kMaxPendingWatchedTokens,
                     TokenFeed::kMaxPendingRanges));
  }
  if (events.completion) End(choice, *events.completion);
}

bool CompletionAnswer::AllEnded() const {
  return std::ranges::all_of(choices_,
                             [](const Choice& choice) { return choice.ended; });
}

bool CompletionAnswer::AnyStarted() const {
  return std::ranges::any_of(choices_, [](const Choice& choice) {
    return choice.started || choice.ended;
  });
}

AnswerUsage CompletionAnswer::Usage() const {
  AnswerUsage usage = {.num_prompt_tokens = form_.num_prompt_tokens};
  for (const Choice& choice : choices_) {
    usage.num_generated_tokens += choice.piece.num_tokens;
    usage.num_thought_tokens += choice.num_thought_tokens;
    usage.num_tokens_read += choice.num_tokens_read;
    if (choice.index % form_.answers_per_prompt == 0) {
      usage.num_cached_tokens += choice.num_cached_tokens;
    }
  }
  return usage;
}

ShownChoice CompletionAnswer::Show(Choice& choice, Piece& piece,
                                   bool is_last) const {
  ShownChoice shown = {.index = choice.index,
                       .parts = std::exchange(piece.parts, {}),
                       .tokens = form_.with_logprobs ? &piece.tokens : nullptr,
                       .text_offset = choice.text_offset,
                       .reads = std::exchange(piece.reads, {}),
                       .num_prompt_tokens = choice.source.num_prompt_tokens,
                       .num_generated_tokens = piece.num_tokens,
                       .num_cached_tokens = choice.num_cached_tokens};
  if (const auto& prompt = choice.source.prompt_token_ids) {
    shown.token_ids = &piece.token_ids;
    const bool told = std::exchange(choice.told_prompt, true);
    if (!told) shown.prompt_token_ids = prompt.get();
  }
  if (!choice.ended || !is_last) return shown;
  shown.finish_reason = choice.finish_reason;
  const std::optional<size_t> stop = choice.source.text.matched_stop();
  if (stop) shown.stop = form_.stops[*stop];
  return shown;
}

std::string CompletionAnswer::Tell(Choice& choice, Piece piece, bool is_last) {
  std::string event = form_.style->Piece(Show(choice, piece, is_last));
  for (const ShownToken& token : piece.tokens) {
    choice.text_offset += NumCharacters(token.text);
  }
  return event;
}

void CompletionAnswer::CountAnswer(int status) {
  metrics_.CountAnswer({form_.record->method, form_.record->handler, status});
}

HttpPart CompletionAnswer::Failure() {
  HttpPart part;
  part.last = true;
  form_.record->error_status = error_->status;
  form_.record->error_code = error_->code;
  if (begun_) {
    part.body = form_.style->Failure(*error_);
    return part;
  }
  CountAnswer(error_->status);
  form_.record->field = error_->field;
  part.head = HttpHead{.status = error_->status, .headers = error_->headers};
  part.body = form_.style->ErrorBody(*error_);
  return part;
}

HttpPart CompletionAnswer::Whole() {
  HttpPart part;
  if (!AllEnded()) return part;
  std::vector<ShownChoice> shown;
  for (Choice& choice : choices_) {
    shown.push_back(Show(choice, choice.piece, /*is_last=*/true));
  }
  part.head = HttpHead{.headers = form_.headers};
  part.body = form_.style->Whole(shown, Usage());
  part.last = true;
  CountAnswer(part.head->status);
  return part;
}

HttpPart CompletionAnswer::Events() {
  HttpPart part;
  const bool all_accepted = std::ranges::all_of(
      choices_, [](const Choice& choice) { return choice.accepted; });
  if (!all_accepted) return part;
  if (!begun_) {
    begun_ = true;
    part.head = HttpHead{.content_type = "text/event-stream",
                         .headers = form_.headers,
                         .streams = true};
    CountAnswer(part.head->status);
  }
  if (!opened_) {
    if (form_.style->begins_with_cached() && !AnyStarted()) return part;
    opened_ = true;
    part.body = form_.style->Begin(static_cast<int>(choices_.size()), Usage());
  }
  for (Choice& choice : choices_) {
    for (Piece& piece : std::exchange(choice.earlier, {})) {
      part.body += Tell(choice, std::move(piece), /*is_last=*/false);
    }
    const bool ends = choice.ended && !choice.told;
    if (IsEmpty(choice.piece) && !ends) continue;
    const int64_t num_tokens = choice.piece.num_tokens;
    part.body +=
        Tell(choice, std::exchange(choice.piece, {}), /*is_last=*/true);
    choice.piece.num_tokens = num_tokens;
    choice.told = choice.ended;
  }
  if (AllEnded()) {
    part.body += form_.style->End(Usage());
    part.last = true;
  }
  return part;
}

std::optional<std::chrono::steady_clock::time_point> CompletionAnswer::due()
    const {
  if (!form_.deadline) return std::nullopt;
  return form_.deadline->at + kMaxLateness;
}

// What has stopped is whole, though the engine hears of it behind its step.
void CompletionAnswer::BeLate() {
  if (AllEnded()) return;
  if (std::ranges::any_of(choices_, [](const Choice& choice) {
        return choice.finish_reason.empty();
      })) {
    return Fail(
        504, form_.deadline->limit +
                 " must suffice for the whole answer, is over within a step");
  }
  for (Choice& choice : choices_) choice.ended = true;
}

HttpPart CompletionAnswer::Take() {
  for (Choice& choice : choices_) Drain(choice);
  const auto latest = due();
  if (latest && *latest <= std::chrono::steady_clock::now()) BeLate();
  if (error_) return Failure();
  return form_.stream ? Events() : Whole();
}

}  // namespace winnow
