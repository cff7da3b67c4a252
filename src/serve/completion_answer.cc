#include "serve/completion_answer.h"

#include <algorithm>
#include <utility>

namespace winnow {

CompletionAnswer::CompletionAnswer(AnswerForm form,
                                   std::vector<AnswerSource> sources,
                                   Cancel cancel, const Tokenizer& tokenizer,
                                   Metrics& metrics)
    : form_(std::move(form)),
      cancel_(std::move(cancel)),
      tokenizer_(tokenizer),
      metrics_(metrics) {
  CHECK(!sources.empty());
  for (AnswerSource& source : sources) {
    choices_.push_back({.source = std::move(source),
                        .index = static_cast<int>(choices_.size())});
  }
}

CompletionAnswer::~CompletionAnswer() {
  for (Choice& choice : choices_) {
    choice.source.feed->Leave();
    if (!choice.ended) cancel_(choice.source.ticket);
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
  error_ = ApiError{.status = status, .message = message};
}

void CompletionAnswer::TakeToken(Choice& choice, const GeneratedToken& token) {
  ++choice.num_tokens;
  if (form_.with_logprobs) choice.tokens.push_back(Shown(token));
  const Result<std::string> piece = choice.source.text.Push(token.token_id);
  if (!piece.ok()) return Fail(500, piece.error().message);
  choice.text += *piece;
  if (!choice.source.text.stopped()) return;
  // The engine goes on until it hears of it; that is nobody's any more.
  choice.finish_reason = "stop";
  choice.source.feed->EndAtStop();
  cancel_(choice.source.ticket);
}

void CompletionAnswer::End(Choice& choice, const Completion& completion) {
  choice.ended = true;
  choice.num_cached_tokens = completion.num_cached_tokens;
  choice.num_tokens_read = completion.kv.num_tokens_read;
  if (!choice.finish_reason.empty()) return;
  if (completion.reason == FinishReason::kError) {
    return Fail(500, completion.error ? completion.error->message : "");
  }
  if (completion.reason == FinishReason::kCancelled) {
    return Fail(503, "the server ends");
  }
  const Result<std::string> rest = choice.source.text.Finish();
  if (!rest.ok()) return Fail(500, rest.error().message);
  choice.text += *rest;
  choice.finish_reason = choice.source.text.stopped()
                             ? "stop"
                             : FinishReasonName(completion.reason);
}

void CompletionAnswer::Drain(Choice& choice) {
  if (choice.ended) return;
  const FeedEvents events = choice.source.feed->Take();
  choice.accepted = choice.accepted || events.accepted;
  if (events.refused) {
    choice.ended = true;
    const bool device = events.refused->code == ErrorCode::kIo;
    return Fail(device ? 503 : 400, events.refused->message);
  }
  for (const GeneratedToken& token : events.tokens) {
    if (!choice.finish_reason.empty()) break;
    TakeToken(choice, token);
  }
  if (events.overflowed && choice.finish_reason.empty()) {
    Fail(500, fmt::format("the client let {} tokens lie unread",
                          TokenFeed::kMaxPendingTokens));
  }
  if (events.completion) End(choice, *events.completion);
}

bool CompletionAnswer::AllEnded() const {
  return std::ranges::all_of(choices_,
                             [](const Choice& choice) { return choice.ended; });
}

AnswerUsage CompletionAnswer::Usage() const {
  AnswerUsage usage = {.num_prompt_tokens = form_.num_prompt_tokens};
  for (const Choice& choice : choices_) {
    usage.num_generated_tokens += choice.num_tokens;
    usage.num_tokens_read += choice.num_tokens_read;
    if (choice.index % form_.answers_per_prompt == 0) {
      usage.num_cached_tokens += choice.num_cached_tokens;
    }
  }
  return usage;
}

ShownChoice CompletionAnswer::Show(const Choice& choice) const {
  return {.index = choice.index,
          .text = choice.text,
          .tokens = form_.with_logprobs ? &choice.tokens : nullptr,
          .text_offset = choice.text_offset,
          .finish_reason =
              choice.ended ? choice.finish_reason : std::string_view()};
}

HttpPart CompletionAnswer::Failure() {
  HttpPart part;
  part.last = true;
  if (begun_) {
    part.body = ErrorEvent(*error_) + SseEvent("[DONE]");
    return part;
  }
  metrics_.CountAnswer(error_->status);
  part.head = HttpHead{.status = error_->status};
  part.body = ErrorJson(*error_);
  return part;
}

HttpPart CompletionAnswer::Whole() {
  HttpPart part;
  if (!AllEnded()) return part;
  std::vector<ShownChoice> shown;
  for (const Choice& choice : choices_) shown.push_back(Show(choice));
  part.head = HttpHead{.headers = form_.headers};
  part.body = CompletionJson(form_.identity, shown, Usage());
  part.last = true;
  metrics_.CountAnswer(part.head->status);
  return part;
}

HttpPart CompletionAnswer::Events() {
  HttpPart part;
  const bool all_accepted = std::ranges::all_of(
      choices_, [](const Choice& choice) { return choice.accepted; });
  if (!all_accepted) return part;
  const bool is_chat = form_.identity.endpoint == Endpoint::kChatCompletions;
  if (!begun_) {
    begun_ = true;
    part.head = HttpHead{.content_type = "text/event-stream",
                         .headers = form_.headers,
                         .streams = true};
    metrics_.CountAnswer(part.head->status);
    for (const Choice& choice : choices_) {
      if (!is_chat) break;
      part.body += RoleEvent(form_.identity, choice.index, form_.include_usage);
    }
  }
  for (Choice& choice : choices_) {
    const bool ends = choice.ended && !choice.told;
    if (choice.text.empty() && choice.tokens.empty() && !ends) continue;
    part.body += ChoiceEvent(form_.identity, Show(choice), form_.include_usage);
    for (const ShownToken& token : choice.tokens) {
      choice.text_offset += NumCharacters(token.text);
    }
    choice.text.clear();
    choice.tokens.clear();
    choice.told = choice.ended;
  }
  if (AllEnded()) {
    if (form_.include_usage) part.body += UsageEvent(form_.identity, Usage());
    part.body += SseEvent("[DONE]");
    part.last = true;
  }
  return part;
}

HttpPart CompletionAnswer::Take() {
  for (Choice& choice : choices_) Drain(choice);
  if (error_) return Failure();
  return form_.stream ? Events() : Whole();
}

}  // namespace winnow
