#include "serve/answer/messages_json.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "serve/answer/json_text.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

std::string Event(const Json& event) {
  return SseEvent(DumpJson(event), event["type"].get<std::string>());
}

// Tokens that were cached are none of the input's.
Json UsageJson(const AnswerUsage& usage) {
  return {{"input_tokens", usage.num_prompt_tokens - usage.num_cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.num_cached_tokens},
          {"output_tokens", usage.num_generated_tokens},
          {"winnow", {{"tokens_read", usage.num_tokens_read}}}};
}

Json EndOf(std::string_view finish_reason, const std::string& stop) {
  Json end = {{"stop_reason", "end_turn"}, {"stop_sequence", nullptr}};
  if (finish_reason == "length") end["stop_reason"] = "max_tokens";
  if (finish_reason == "tool_calls") {
    end["stop_reason"] = "tool_use";
  } else if (!stop.empty()) {
    end["stop_reason"] = "stop_sequence";
    end["stop_sequence"] = stop;
  }
  return end;
}

// Thoughts are Anthropic's with a signature, and clients send it back. Here
// nobody looks at it.
constexpr const char* kSignature = "unsigned";

Json BlockOf(const ShownPart& part, bool whole) {
  if (part.is_thought) {
    return {{"type", "thinking"},
            {"thinking", whole ? part.text : ""},
            {"signature", whole ? kSignature : ""}};
  }
  if (!part.call) return {{"type", "text"}, {"text", whole ? part.text : ""}};
  return {{"type", "tool_use"},
          {"id", part.call->id},
          {"name", part.call->name},
          {"input",
           whole ? Json::parse(part.call->arguments_json) : Json::object()}};
}

Json DeltaOf(const ShownPart& part) {
  if (part.call) {
    return {{"type", "input_json_delta"},
            {"partial_json", part.call->arguments_json}};
  }
  if (part.is_thought) {
    return {{"type", "thinking_delta"}, {"thinking", part.text}};
  }
  return {{"type", "text_delta"}, {"text", part.text}};
}

std::string Delta(Json delta, int block) {
  return Event({{"type", "content_block_delta"},
                {"index", block},
                {"delta", std::move(delta)}});
}

Json MessageOf(const AnswerIdentity& identity, Json content, Json end,
               const AnswerUsage& usage) {
  Json message = {{"id", identity.id},
                  {"type", "message"},
                  {"role", "assistant"},
                  {"model", identity.model},
                  {"content", std::move(content)}};
  message.update(end);
  message["usage"] = UsageJson(usage);
  return message;
}

// Anthropic's word for a status.
std::string_view TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

std::string MessagesStyle::Whole(const std::vector<ShownChoice>& choices,
                                 const AnswerUsage& usage) {
  CHECK(choices.size() == 1, "choices={}", choices.size());
  const ShownChoice& choice = choices.front();
  Json content = Json::array();
  for (const ShownPart& part : choice.parts) {
    content.push_back(BlockOf(part, /*whole=*/true));
  }
  return DumpJson(MessageOf(identity_, std::move(content),
                            EndOf(choice.finish_reason, choice.stop), usage));
}

std::string MessagesStyle::Begin(int num_choices, const AnswerUsage& usage) {
  CHECK(num_choices == 1, "choices={}", num_choices);
  const Json none = {{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  return Event({{"type", "message_start"},
                {"message", MessageOf(identity_, Json::array(), none, usage)}});
}

std::string MessagesStyle::BeginBlock(const ShownPart& part) {
  return Event({{"type", "content_block_start"},
                {"index", num_blocks_},
                {"content_block", BlockOf(part, /*whole=*/false)}});
}

std::string MessagesStyle::EndBlock() {
  std::string events;
  if (open_ && is_thought_) {
    events = Delta({{"type", "signature_delta"}, {"signature", kSignature}},
                   num_blocks_);
  }
  open_ = false;
  return events +
         Event({{"type", "content_block_stop"}, {"index", num_blocks_++}});
}

std::string MessagesStyle::Piece(const ShownChoice& piece) {
  finish_reason_ = piece.finish_reason;
  stop_ = piece.stop;
  std::string events;
  for (const ShownPart& part : piece.parts) {
    if (open_ && (part.call || part.is_thought != is_thought_)) {
      events += EndBlock();
    }
    if (!open_) events += BeginBlock(part);
    events += Delta(DeltaOf(part), num_blocks_);
    open_ = !part.call;
    is_thought_ = part.is_thought;
    if (part.call) events += EndBlock();
  }
  if (!finish_reason_.empty() && open_) events += EndBlock();
  return events;
}

std::string MessagesStyle::End(const AnswerUsage& usage) {
  return Event({{"type", "message_delta"},
                {"delta", EndOf(finish_reason_, stop_)},
                {"usage", UsageJson(usage)}}) +
         Event({{"type", "message_stop"}});
}

std::string MessagesStyle::Failure(const ApiError& error) {
  return SseEvent(MessagesErrorJson(error), "error");
}

std::string MessagesStyle::ErrorBody(const ApiError& error) const {
  return MessagesErrorJson(error);
}

std::string MessagesErrorJson(const ApiError& error) {
  return DumpJson(
      {{"type", "error"},
       {"error",
        {{"type", TypeOf(error.status)}, {"message", error.message}}}});
}

}  // namespace winnow
