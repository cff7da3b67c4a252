#include "serve/completion_answer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "serve/completion_json.h"

namespace winnow {
namespace {

// What a client asked for, its time, or what the server did.
int StatusOf(const std::optional<Error>& error) {
  if (!error) return 500;
  if (error->code == ErrorCode::kInvalidArgument) return 400;
  return error->code == ErrorCode::kCancelled ? 504 : 500;
}

}  // namespace

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

std::string CompletionAnswer::TextOf(int32_t token_id) const {
  const Result<std::string> text =
      tokenizer_.Decode({&token_id, 1}, /*skip_special_tokens=*/false);
  return text.ok() ? *text : std::string();
}

ShownToken CompletionAnswer::Shown(const GeneratedToken& token) const {
  ShownToken shown = {.text = TextOf(token.token_id), .logprob = token.logprob};
  for (const TokenLogprob& other : token.top) {
    shown.top.emplace_back(TextOf(other.token_id), other.logprob);
  }
  return shown;
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
  const std::vector<int32_t>& markers = form_.marker_ids;
  return markers.empty() || !tokenizer_.IsSpecial(token_id) ||
         std::ranges::find(markers, token_id) != markers.end();
}

void CompletionAnswer::TakeParts(Choice& choice,
                                 std::vector<AnswerPart> parts) {
  for (AnswerPart& part : parts) {
    if (form_.one_call && choice.num_calls > 0) return;
    if (!part.call) {
      AddText(part.text, /*is_thought=*/false, choice.parts);
      continue;
    }
    const int number = choice.num_calls++;
    choice.parts.push_back(
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
      AddText(piece.text, /*is_thought=*/true, choice.parts);
    }
  }
}

void CompletionAnswer::FinishText(Choice& choice) {
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
  if (!form_.shows_generated && scored == nullptr) return;
  const auto num_characters = choice.source.text.Follow(echo.token_ids);
  if (!num_characters.ok()) return Fail(500, num_characters.error().message);
  if (scored == nullptr) return;
  int64_t num_left = NumCharacters(echo.text);
  // Special tokens that the text does not show have none of its characters.
  int64_t num_hidden = std::accumulate(num_characters->begin(),
                                       num_characters->end(), int64_t{0}) -
                       num_left;
  for (size_t i = 0; i < echo.token_ids.size(); ++i) {
    int64_t num_own = (*num_characters)[i];
    if (num_hidden > 0 && tokenizer_.IsSpecial(echo.token_ids[i])) {
      num_hidden -= num_own;
      num_own = 0;
    }
    num_own = std::min(num_own, num_left);
    const bool first = i == 0;
    choice.tokens.push_back(
        Shown(first ? GeneratedToken{.token_id = echo.token_ids[i],
                                     .logprob = std::nanf(""),
                                     .top = {}}
                    : (*scored)[i - 1]));
    choice.tokens.back().num_characters = num_own;
    num_left -= num_own;
  }
  // The answer's begin where the prompt's text ends, though its tokens may
  // spell it otherwise.
  choice.tokens.back().num_characters += num_left;
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
  ++choice.num_tokens;
  ++form_.record->num_generated_tokens;
  if (form_.with_logprobs) choice.tokens.push_back(Shown(token));
  if (choice.source.prompt_token_ids)
    choice.token_ids.push_back(token.token_id);
  if (token.reads) choice.reads.push_back({.reads = token.reads, .text = {}});
  if (!IsShown(token.token_id)) return;
  const auto& thoughts = choice.source.thoughts;
  const bool was_thinking = thoughts && thoughts->thinks();
  const int64_t num_before = choice.source.text.num_characters();
  const Result<std::string> piece = choice.source.text.Push(token.token_id);
  if (!piece.ok()) return Fail(500, piece.error().message);
  if (form_.with_logprobs) {
    choice.tokens.back().num_characters =
        choice.source.text.num_characters() - num_before;
  }
  if (token.reads) choice.reads.back().text = *piece;
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
  for (const GeneratedToken& token : events.tokens) {
    if (!choice.finish_reason.empty()) break;
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
    usage.num_generated_tokens += choice.num_tokens;
    usage.num_thought_tokens += choice.num_thought_tokens;
    usage.num_tokens_read += choice.num_tokens_read;
    if (choice.index % form_.answers_per_prompt == 0) {
      usage.num_cached_tokens += choice.num_cached_tokens;
    }
  }
  return usage;
}

ShownChoice CompletionAnswer::Show(Choice& choice) const {
  ShownChoice shown = {.index = choice.index,
                       .parts = std::exchange(choice.parts, {}),
                       .tokens = form_.with_logprobs ? &choice.tokens : nullptr,
                       .text_offset = choice.text_offset,
                       .reads = std::exchange(choice.reads, {}),
                       .num_prompt_tokens = choice.source.num_prompt_tokens,
                       .num_generated_tokens = choice.num_tokens,
                       .num_cached_tokens = choice.num_cached_tokens};
  if (const auto& prompt = choice.source.prompt_token_ids) {
    shown.token_ids = &choice.token_ids;
    const bool told = std::exchange(choice.told_prompt, true);
    if (!told) shown.prompt_token_ids = prompt.get();
  }
  if (!choice.ended) return shown;
  shown.finish_reason = choice.finish_reason;
  const std::optional<size_t> stop = choice.source.text.matched_stop();
  if (stop) shown.stop = form_.stops[*stop];
  return shown;
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
  for (Choice& choice : choices_) shown.push_back(Show(choice));
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
    const bool ends = choice.ended && !choice.told;
    const bool has_any = !choice.parts.empty() || !choice.tokens.empty() ||
                         !choice.reads.empty() || !choice.token_ids.empty();
    if (!has_any && !ends) continue;
    part.body += form_.style->Piece(Show(choice));
    for (const ShownToken& token : choice.tokens) {
      choice.text_offset += token.num_characters;
    }
    choice.tokens.clear();
    choice.token_ids.clear();
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
