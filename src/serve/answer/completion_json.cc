#include "serve/answer/completion_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "serve/answer/json_text.h"
#include "text/tokenize/answer_text.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

bool IsChat(const AnswerIdentity& identity) {
  return identity.endpoint == Endpoint::kChatCompletions;
}

Json BytesOf(std::string_view text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

std::string IdName(const ShownToken& token) {
  return fmt::format("token_id:{}", token.token_id);
}

// By the texts that `tokens` would have of them. One that has none of its own
// there, or that of another, is named by its id.
Json TopOf(const ShownToken& token, const std::string& name, TokenNames names) {
  if (std::isnan(token.logprob)) return nullptr;
  Json top = {{name, token.logprob}};
  for (const ShownToken& other : token.top) {
    if (other.token_id == token.token_id) continue;
    std::string text = other.is_skipped ? other.bytes : other.text;
    const bool by_id =
        names == TokenNames::kIds || text.empty() || top.contains(text);
    top[by_id ? IdName(other) : std::move(text)] = other.logprob;
  }
  return top;
}

// The form of the older interface: a list of each kind.
Json CompletionLogprobs(const ShownChoice& choice, TokenNames names) {
  Json texts = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  int64_t offset = choice.text_offset;
  for (const ShownToken& token : *choice.tokens) {
    const std::string name =
        names == TokenNames::kIds ? IdName(token) : token.text;
    texts.push_back(name);
    logprobs.push_back(token.logprob);
    tops.push_back(TopOf(token, name, names));
    offsets.push_back(offset);
    offset += NumCharacters(token.text);
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(texts)},
          {"top_logprobs", std::move(tops)}};
}

Json LogprobsOf(const AnswerIdentity& identity, const ShownChoice& choice,
                TokenNames names) {
  if (choice.tokens == nullptr) return nullptr;
  if (!IsChat(identity)) return CompletionLogprobs(choice, names);
  return {{"content", TokensJson(*choice.tokens, names)}, {"refusal", nullptr}};
}

// [{"position", "text", "layers": [[[first, end, heads]]], "truncated"}].
Json PicksOf(const ShownChoice& piece) {
  Json picks = Json::array();
  for (const ShownReads& token : piece.reads) {
    Json layers = Json::array();
    for (const std::vector<ReadRange>& ranges : token.reads->layers) {
      Json& layer = layers.emplace_back(Json::array());
      for (const auto& [first, end, num_heads] : ranges) {
        layer.push_back({first, end, num_heads});
      }
    }
    picks.push_back({{"position", token.reads->position},
                     {"text", token.text},
                     {"layers", std::move(layers)},
                     {"truncated", token.reads->truncated}});
  }
  return picks;
}

// Where they were asked for: of a chat's prompt beside its choices, as vLLM has
// it.
void AddTokenIds(const AnswerIdentity& identity, const ShownChoice& choice,
                 Json& shown, Json& outline) {
  if (choice.token_ids != nullptr) shown["token_ids"] = *choice.token_ids;
  if (choice.prompt_token_ids == nullptr) return;
  Json& place = IsChat(identity) ? outline : shown;
  place["prompt_token_ids"] = *choice.prompt_token_ids;
}

Json ReasonOf(const ShownChoice& choice) {
  if (choice.finish_reason.empty()) return nullptr;
  return choice.finish_reason;
}

// What is known of an answer while it runs.
Json RunningUsageJson(const AnswerUsage& usage) {
  return {
      {"prompt_tokens", usage.num_prompt_tokens},
      {"completion_tokens", usage.num_generated_tokens},
      {"total_tokens", usage.num_prompt_tokens + usage.num_generated_tokens},
      {"prompt_tokens_details", {{"cached_tokens", usage.num_cached_tokens}}}};
}

Json UsageJson(const AnswerUsage& usage) {
  Json json = RunningUsageJson(usage);
  json["winnow"] = {{"tokens_read", usage.num_tokens_read}};
  if (usage.num_thought_tokens > 0) {
    json["completion_tokens_details"] = {
        {"reasoning_tokens", usage.num_thought_tokens}};
  }
  return json;
}

Json Outline(const AnswerIdentity& identity, bool in_stream) {
  const std::string_view object = !IsChat(identity) ? "text_completion"
                                  : in_stream       ? "chat.completion.chunk"
                                                    : "chat.completion";
  return {{"id", identity.id},
          {"object", object},
          {"created", identity.created_unix_s},
          {"model", identity.model},
          {"choices", Json::array()}};
}

// Of the calls among the parts. In a stream each has its place among those of
// its choice; what comes of it comes at once.
Json CallsOf(const ShownChoice& choice, bool in_stream) {
  Json calls = Json::array();
  for (const ShownPart& part : choice.parts) {
    if (!part.call) continue;
    Json shown = Json::object();
    if (in_stream) shown["index"] = part.call->index;
    shown["id"] = part.call->id;
    shown["type"] = "function";
    shown["function"] = {{"name", part.call->name},
                         {"arguments", part.call->arguments_json}};
    calls.push_back(std::move(shown));
  }
  return calls;
}

// By vLLM's name, and by that which it had before and others have.
void AddThoughts(const ShownChoice& choice, Json& message) {
  const std::string thoughts = choice.Thoughts();
  if (thoughts.empty()) return;
  message["reasoning"] = thoughts;
  message["reasoning_content"] = thoughts;
}

Json MessageOf(const ShownChoice& choice) {
  Json calls = CallsOf(choice, /*in_stream=*/false);
  const std::string text = choice.Text();
  Json message = {{"role", "assistant"}};
  message["content"] = text.empty() && !calls.empty() ? Json() : Json(text);
  message["refusal"] = nullptr;
  AddThoughts(choice, message);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

Json DeltaOf(const ShownChoice& piece) {
  Json delta = Json::object();
  const std::string text = piece.Text();
  if (!text.empty()) delta["content"] = text;
  AddThoughts(piece, delta);
  Json calls = CallsOf(piece, /*in_stream=*/true);
  if (!calls.empty()) delta["tool_calls"] = std::move(calls);
  return delta;
}

// OpenAI's word for a status.
std::string_view TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

nlohmann::ordered_json TokensJson(const std::vector<ShownToken>& tokens,
                                  TokenNames names) {
  const auto entry = [names](const ShownToken& token) {
    const std::string& text = token.is_skipped ? token.bytes : token.text;
    return Json{{"token", names == TokenNames::kIds ? IdName(token) : text},
                {"logprob", token.logprob},
                {"bytes", BytesOf(token.bytes)}};
  };
  Json content = Json::array();
  for (const ShownToken& token : tokens) {
    Json shown = entry(token);
    shown["top_logprobs"] = Json::array();
    for (const ShownToken& other : token.top) {
      shown["top_logprobs"].push_back(entry(other));
    }
    content.push_back(std::move(shown));
  }
  return content;
}

std::string CompletionStyle::Whole(const std::vector<ShownChoice>& choices,
                                   const AnswerUsage& usage) {
  Json outline = Outline(identity_, /*in_stream=*/false);
  for (const ShownChoice& choice : choices) {
    Json shown = {{"index", choice.index}};
    if (IsChat(identity_)) {
      shown["message"] = MessageOf(choice);
    } else {
      shown["text"] = choice.Text();
    }
    shown["logprobs"] = LogprobsOf(identity_, choice, names_);
    shown["finish_reason"] = ReasonOf(choice);
    AddTokenIds(identity_, choice, shown, outline);
    outline["choices"].push_back(std::move(shown));
  }
  outline["usage"] = UsageJson(usage);
  return DumpJson(outline);
}

std::string CompletionStyle::Event(Json event, Json choice,
                                   const AnswerUsage& usage) const {
  event["choices"].push_back(std::move(choice));
  if (usage_ == StreamUsage::kAtEnd) event["usage"] = nullptr;
  if (usage_ == StreamUsage::kInEach) event["usage"] = RunningUsageJson(usage);
  return SseEvent(DumpJson(event));
}

// The first event of a chat's choice has its role; a chat is one prompt.
std::string CompletionStyle::Begin(int num_choices, const AnswerUsage& usage) {
  std::string events;
  for (int i = 0; i < num_choices && IsChat(identity_); ++i) {
    events += Event(Outline(identity_, /*in_stream=*/true),
                    {{"index", i},
                     {"delta", {{"role", "assistant"}, {"content", ""}}},
                     {"logprobs", nullptr},
                     {"finish_reason", nullptr}},
                    {.num_prompt_tokens = usage.num_prompt_tokens,
                     .num_cached_tokens = usage.num_cached_tokens});
  }
  return events;
}

std::string CompletionStyle::Piece(const ShownChoice& piece) {
  Json shown = {{"index", piece.index}};
  if (IsChat(identity_)) {
    shown["delta"] = DeltaOf(piece);
  } else {
    shown["text"] = piece.Text();
  }
  shown["logprobs"] = LogprobsOf(identity_, piece, names_);
  shown["finish_reason"] = ReasonOf(piece);
  if (!piece.reads.empty()) shown["winnow"] = {{"picks", PicksOf(piece)}};
  Json outline = Outline(identity_, /*in_stream=*/true);
  AddTokenIds(identity_, piece, shown, outline);
  return Event(std::move(outline), std::move(shown),
               {.num_prompt_tokens = piece.num_prompt_tokens,
                .num_generated_tokens = piece.num_generated_tokens,
                .num_cached_tokens = piece.num_cached_tokens});
}

std::string CompletionStyle::End(const AnswerUsage& usage) {
  std::string events;
  if (usage_ != StreamUsage::kNone) {
    Json outline = Outline(identity_, /*in_stream=*/true);
    outline["usage"] = UsageJson(usage);
    events = SseEvent(DumpJson(outline));
  }
  return events + SseEvent("[DONE]");
}

std::string CompletionStyle::Failure(const ApiError& error) {
  return SseEvent(ErrorJson(error)) + SseEvent("[DONE]");
}

std::string CompletionStyle::ErrorBody(const ApiError& error) const {
  return ErrorJson(error);
}

std::string ErrorJson(const ApiError& error) {
  const auto or_null = [](const std::string& text) -> Json {
    if (text.empty()) return nullptr;
    return text;
  };
  Json shown = {{"message", error.message}, {"type", TypeOf(error.status)}};
  shown["param"] = or_null(error.field);
  // A word or nothing: OpenAI's clients take no number for it.
  shown["code"] = error.code.empty() ? Json() : Json(error.code);
  return DumpJson({{"error", std::move(shown)}});
}

}  // namespace winnow
