#include "serve/answer/responses_json.h"

#include <utility>

#include "serve/answer/completion_json.h"
#include "serve/answer/json_text.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// No request writes to the cache by its own wish: what there is room for stays.
Json UsageJson(const AnswerUsage& usage) {
  return {
      {"input_tokens", usage.num_prompt_tokens},
      {"input_tokens_details",
       {{"cache_write_tokens", 0}, {"cached_tokens", usage.num_cached_tokens}}},
      {"output_tokens", usage.num_generated_tokens},
      {"output_tokens_details",
       {{"reasoning_tokens", usage.num_thought_tokens}}},
      {"total_tokens", usage.num_prompt_tokens + usage.num_generated_tokens},
      {"winnow", {{"tokens_read", usage.num_tokens_read}}}};
}

Json CallItem(const ShownCall& call, const std::string& id,
              std::string_view status) {
  const bool done = status == "completed";
  return {{"id", id},          {"type", "function_call"},
          {"status", status},  {"call_id", call.id},
          {"name", call.name}, {"arguments", done ? call.arguments_json : ""}};
}

// `object` with `text`, members of it, behind its own.
std::string Joined(const Json& object, std::string_view text) {
  std::string joined = DumpJson(object);
  joined.pop_back();
  return joined + "," + std::string(text) + "}";
}

}  // namespace

std::string ResponsesStyle::Response(std::string_view status,
                                     const Json& more) const {
  Json response = {{"id", identity_.id},
                   {"object", "response"},
                   {"created_at", identity_.created_unix_s},
                   {"status", status},
                   {"model", identity_.model},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"output", output_}};
  response.update(more);
  return Joined(response, echo_json_);
}

std::string ResponsesStyle::Event(std::string_view type, Json members) {
  Json event = {{"type", type}, {"sequence_number", num_events_++}};
  event.update(members);
  return SseEvent(DumpJson(event), type);
}

std::string ResponsesStyle::ResponseEvent(std::string_view type,
                                          std::string_view status,
                                          const Json& more) {
  const Json event = {{"type", type}, {"sequence_number", num_events_++}};
  return SseEvent(Joined(event, "\"response\":" + Response(status, more)),
                  type);
}

std::string ResponsesStyle::IdOf(std::string_view kind) const {
  const size_t prefix = identity_.id.find('_') + 1;
  return fmt::format("{}_{}_{}", kind, identity_.id.substr(prefix),
                     output_.size());
}

std::string ResponsesStyle::ItemId() const {
  return IdOf(open_ == Open::kThought ? "rs" : "msg");
}

std::string ResponsesStyle::TextEvent(std::string_view kind) const {
  return fmt::format("response.{}.{}",
                     open_ == Open::kThought ? "reasoning_text" : "output_text",
                     kind);
}

Json ResponsesStyle::TextPart() const {
  if (open_ == Open::kThought) {
    return {{"type", "reasoning_text"}, {"text", text_}};
  }
  return {{"type", "output_text"},
          {"text", text_},
          {"annotations", Json::array()},
          {"logprobs", logprobs_}};
}

Json ResponsesStyle::Item(std::string_view status) const {
  Json content = Json::array();
  if (status != "in_progress") content.push_back(TextPart());
  Json item = {{"id", ItemId()}, {"type", "message"}, {"status", status}};
  if (open_ == Open::kThought) {
    item["type"] = "reasoning";
    item["summary"] = Json::array();
  } else {
    item["role"] = "assistant";
  }
  item["content"] = std::move(content);
  return item;
}

Json ResponsesStyle::Place() const {
  return {{"item_id", ItemId()},
          {"output_index", output_.size()},
          {"content_index", 0}};
}

std::string ResponsesStyle::Begin(Open item) {
  open_ = item;
  text_.clear();
  logprobs_ = Json::array();
  std::string events =
      Event("response.output_item.added",
            {{"output_index", output_.size()}, {"item", Item("in_progress")}});
  Json part = Place();
  part["part"] = TextPart();
  return events + Event("response.content_part.added", std::move(part));
}

std::string ResponsesStyle::Close(std::string_view status) {
  Json done = Place();
  done["text"] = text_;
  if (open_ == Open::kMessage) {
    for (Json& each : std::exchange(untold_logprobs_, Json::array())) {
      logprobs_.push_back(std::move(each));
    }
    done["logprobs"] = logprobs_;
  }
  std::string events = Event(TextEvent("done"), std::move(done));
  Json part = Place();
  part["part"] = TextPart();
  events += Event("response.content_part.done", std::move(part));
  Json item = Item(status);
  events += Event("response.output_item.done",
                  {{"output_index", output_.size()}, {"item", item}});
  output_.push_back(std::move(item));
  open_ = Open::kNone;
  return events;
}

std::string ResponsesStyle::TellText(Open item, const std::string& text) {
  const bool other = open_ != Open::kNone && open_ != item;
  std::string events = other ? Close("completed") : "";
  if (open_ == Open::kNone) events += Begin(item);
  text_ += text;
  Json delta = Place();
  delta["delta"] = text;
  if (item == Open::kMessage) {
    delta["logprobs"] = untold_logprobs_;
    for (Json& each : std::exchange(untold_logprobs_, Json::array())) {
      logprobs_.push_back(std::move(each));
    }
  }
  return events + Event(TextEvent("delta"), std::move(delta));
}

std::string ResponsesStyle::TellCall(const ShownCall& call) {
  std::string events = open_ != Open::kNone ? Close("completed") : "";
  const std::string id = IdOf("fc");
  const auto index = output_.size();
  events += Event(
      "response.output_item.added",
      {{"output_index", index}, {"item", CallItem(call, id, "in_progress")}});
  events += Event("response.function_call_arguments.delta",
                  {{"item_id", id},
                   {"output_index", index},
                   {"delta", call.arguments_json}});
  events += Event("response.function_call_arguments.done",
                  {{"item_id", id},
                   {"output_index", index},
                   {"name", call.name},
                   {"arguments", call.arguments_json}});
  Json item = CallItem(call, id, "completed");
  events += Event("response.output_item.done",
                  {{"output_index", index}, {"item", item}});
  output_.push_back(std::move(item));
  return events;
}

std::string_view ResponsesStyle::EndStatus() const {
  return finish_reason_ == "length" ? "incomplete" : "completed";
}

Json ResponsesStyle::EndMembers(const AnswerUsage& usage) const {
  Json members = {{"usage", UsageJson(usage)}};
  if (finish_reason_ == "length") {
    members["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  return members;
}

// The same events, unsent, make the same items.
std::string ResponsesStyle::Whole(const std::vector<ShownChoice>& choices,
                                  const AnswerUsage& usage) {
  CHECK(choices.size() == 1, "choices={}", choices.size());
  Piece(choices.front());
  return Response(EndStatus(), EndMembers(usage));
}

std::string ResponsesStyle::Begin(int num_choices, const AnswerUsage&) {
  CHECK(num_choices == 1, "choices={}", num_choices);
  const Json nothing = Json::object();
  const std::string created =
      ResponseEvent("response.created", "in_progress", nothing);
  return created +
         ResponseEvent("response.in_progress", "in_progress", nothing);
}

std::string ResponsesStyle::Piece(const ShownChoice& piece) {
  if (piece.tokens != nullptr) {
    for (Json& each : TokensJson(*piece.tokens)) {
      untold_logprobs_.push_back(std::move(each));
    }
  }
  finish_reason_ = piece.finish_reason;
  std::string events;
  for (const ShownPart& part : piece.parts) {
    const Open item = part.is_thought ? Open::kThought : Open::kMessage;
    events += part.call ? TellCall(*part.call) : TellText(item, part.text);
  }
  if (finish_reason_.empty()) return events;
  // An answer has an item, if only an empty one.
  if (open_ == Open::kNone && output_.empty()) events += Begin(Open::kMessage);
  if (open_ != Open::kNone) events += Close(EndStatus());
  return events;
}

std::string ResponsesStyle::End(const AnswerUsage& usage) {
  const std::string_view status = EndStatus();
  return ResponseEvent(fmt::format("response.{}", status), status,
                       EndMembers(usage));
}

std::string ResponsesStyle::Failure(const ApiError& error) {
  return ResponseEvent(
      "response.failed", "failed",
      {{"error", {{"code", "server_error"}, {"message", error.message}}}});
}

std::string ResponsesStyle::ErrorBody(const ApiError& error) const {
  return ErrorJson(error);
}

}  // namespace winnow
