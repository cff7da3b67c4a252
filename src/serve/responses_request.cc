#include "serve/responses_request.h"

#include <algorithm>
#include <iterator>

#include "serve/chat_messages.h"
#include "serve/request_grammar.h"
#include "serve/request_ranges.h"
#include "text/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kThoughtTypes = "\"reasoning_text\" or \"text\"";
constexpr std::string_view kPartTypes =
    "\"input_text\", \"output_text\" or \"text\"";

Result<std::string> TextIn(const json& object, const std::string& field,
                           const char* name) {
  const json value = object.value(name, json());
  if (!value.is_string()) return WrongField(field + "." + name, "a string");
  return value.get<std::string>();
}

// Whether the last turn is a thought alone.
bool AwaitsWords(const std::vector<ChatTurn>& turns) {
  return !turns.empty() && !turns.back().thought.is_null() &&
         turns.back().content.is_null() && turns.back().calls.empty();
}

Status AddMessage(const json& item, const std::string& field,
                  std::vector<ChatTurn>& turns) {
  const json role = item.value("role", json());
  constexpr std::string_view kRoles[] = {"system", "developer", "user",
                                         "assistant"};
  const bool known =
      role.is_string() &&
      std::ranges::find(kRoles, role.get<std::string>()) != std::end(kRoles);
  if (!known) {
    return WrongField(field + ".role",
                      "\"system\", \"developer\", \"user\" or \"assistant\"");
  }
  ASSIGN_OR_RETURN(json content, TextOfParts(item.value("content", json()),
                                             field + ".content", kPartTypes));
  if (content.is_null()) {
    return WrongField(field + ".content",
                      "a string or a list of parts, is missing");
  }
  if (role == "assistant" && AwaitsWords(turns)) {
    turns.back().content = std::move(content);
    return Ok{};
  }
  turns.push_back(
      {.role = role == "developer" ? "system" : role.get<std::string>(),
       .content = std::move(content)});
  return Ok{};
}

// Belongs to what the assistant said before it, if that came last.
Status AddCall(const json& item, const std::string& field,
               const JsonLimits& limits, std::vector<ChatTurn>& turns) {
  WrittenCall call;
  ASSIGN_OR_RETURN(call.id, TextIn(item, field, "call_id"));
  ASSIGN_OR_RETURN(call.name, TextIn(item, field, "name"));
  ASSIGN_OR_RETURN(call.arguments, TextIn(item, field, "arguments"));
  ASSIGN_OR_RETURN(std::string text,
                   CallJson(call, field + ".arguments", limits));
  if (turns.empty() || turns.back().role != "assistant") {
    turns.push_back({.role = "assistant"});
  }
  turns.back().calls.push_back(std::move(text));
  return Ok{};
}

Status AddResult(const json& item, const std::string& field,
                 std::vector<ChatTurn>& turns) {
  ChatTurn turn = {.role = "tool"};
  ASSIGN_OR_RETURN(turn.tool_call_id, TextIn(item, field, "call_id"));
  ASSIGN_OR_RETURN(turn.content, TextOfParts(item.value("output", json()),
                                             field + ".output", kPartTypes));
  if (turn.content.is_null()) {
    return WrongField(field + ".output",
                      "a string or a list of parts, is missing");
  }
  turns.push_back(std::move(turn));
  return Ok{};
}

// A thought, which the assistant's next words or calls follow.
Status AddThought(const json& item, const std::string& field,
                  std::vector<ChatTurn>& turns) {
  ASSIGN_OR_RETURN(const json thought,
                   TextOfParts(item.value("content", json()),
                               field + ".content", kThoughtTypes));
  if (!thought.is_string() || thought == "") return Ok{};
  turns.push_back({.role = "assistant", .thought = thought});
  return Ok{};
}

Status AddItem(const json& item, const std::string& field,
               const JsonLimits& limits, std::vector<ChatTurn>& turns) {
  if (!item.is_object()) return WrongField(field, "an object");
  const json type = item.value("type", json("message"));
  if (type == "message") return AddMessage(item, field, turns);
  if (type == "function_call") return AddCall(item, field, limits, turns);
  if (type == "function_call_output") return AddResult(item, field, turns);
  if (type == "reasoning") return AddThought(item, field, turns);
  return WrongField(field + ".type",
                    "\"message\", \"function_call\", "
                    "\"function_call_output\" or \"reasoning\"");
}

Status ReadInput(const RequestBody& body, const JsonLimits& limits,
                 CompletionRequest& request) {
  ASSIGN_OR_RETURN(const std::string instructions,
                   body.fields.Text("instructions", ""));
  std::vector<ChatTurn> turns;
  if (!instructions.empty()) {
    turns.push_back({.role = "system", .content = instructions});
  }
  const json input = body.Value("input");
  const bool is_list =
      input.is_array() && !input.empty() && input.size() <= kMaxMessages;
  if (input.is_string()) {
    turns.push_back({.role = "user", .content = input});
  } else if (is_list) {
    for (size_t i = 0; i < input.size(); ++i) {
      RETURN_IF_ERROR(
          AddItem(input[i], fmt::format("input[{}]", i), limits, turns));
    }
  } else {
    return WrongField("input", fmt::format("a string, or a list of 1 to {} "
                                           "items",
                                           kMaxMessages));
  }
  request.messages_json = TurnsJson(turns);
  return Ok{};
}

Status ReadTextFormat(const RequestBody& body, CompletionRequest& request) {
  if (!body.fields.Has("text")) return Ok{};
  const json text = body.Value("text");
  if (!text.is_object()) return WrongField("text", "an object");
  for (const auto& [name, value] : text.items()) {
    if (name == "format" || value.is_null()) continue;
    request.ignored.push_back("text." + name);
  }
  const json format = text.value("format", json());
  if (format.is_null()) return Ok{};
  const std::string_view raw = MemberOf(MemberOf(body.text, "text"), "format");
  return ReadFormat(format, raw, "text.format", /*nested=*/false, request);
}

Status ReadIncluded(const RequestBody& body, CompletionRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   body.fields.Texts("include"));
  ASSIGN_OR_RETURN(const int64_t number,
                   body.fields.Integer("top_logprobs", kTopLogprobsRange, 0));
  constexpr std::string_view kLogprobs = "message.output_text.logprobs";
  // Nothing is encrypted here.
  constexpr std::string_view kThoughts = "reasoning.encrypted_content";
  bool wanted = number > 0;
  for (const std::string& name : names) {
    if (name != kLogprobs && name != kThoughts) {
      return WrongField(
          "include", fmt::format("of \"{}\" and \"{}\"", kLogprobs, kThoughts));
    }
    wanted = wanted || name == kLogprobs;
  }
  if (wanted) request.sampling.logprobs = static_cast<int>(number);
  return Ok{};
}

// What the answer says again of its request, with what was not said.
std::string EchoOf(const RequestBody& body, const CompletionRequest& request) {
  const auto given = [&body](const char* name, json otherwise) {
    json value = body.Value(name);
    return value.is_null() ? otherwise : value;
  };
  const json echo = {
      {"background", false},
      {"instructions", given("instructions", nullptr)},
      {"max_output_tokens", given("max_output_tokens", nullptr)},
      {"metadata", given("metadata", json::object())},
      {"parallel_tool_calls", !request.one_call},
      {"previous_response_id", nullptr},
      {"reasoning", given("reasoning", nullptr)},
      {"store", false},
      {"temperature", given("temperature", request.sampling.temperature)},
      {"text", given("text", {{"format", {{"type", "text"}}}})},
      {"tool_choice", given("tool_choice", "auto")},
      {"tools", given("tools", json::array())},
      {"top_logprobs", request.sampling.logprobs.value_or(0)},
      {"top_p", given("top_p", request.sampling.top_p)},
      {"truncation", "disabled"},
      {"user", given("user", nullptr)}};
  const std::string text = echo.dump();
  return text.substr(1, text.size() - 2);
}

}  // namespace

Status ReadResponsesRequest(const RequestBody& body, const RequestRules& rules,
                            CompletionRequest& request) {
  RETURN_IF_ERROR(ReadInput(body, rules.json, request));
  ASSIGN_OR_RETURN(const ToolChoice choice,
                   ReadToolChoice(body.Value("tool_choice"), request.endpoint));
  ASSIGN_OR_RETURN(const bool several,
                   body.fields.Flag("parallel_tool_calls", true));
  request.one_call = !several;
  RETURN_IF_ERROR(ReadToolsAndTemplate(body, choice, request));
  RETURN_IF_ERROR(
      ReadReasoning(body.fields, request.thoughts, request.ignored));
  RETURN_IF_ERROR(ReadTextFormat(body, request));
  RETURN_IF_ERROR(ReadIncluded(body, request));
  if (body.fields.Has("max_output_tokens")) {
    ASSIGN_OR_RETURN(const int64_t number,
                     body.fields.Integer("max_output_tokens", kMaxTokensRange));
    request.max_tokens = static_cast<int>(number);
  }
  RETURN_IF_ERROR(ReadSampling(body.fields, rules, request));
  request.echo_json = EchoOf(body, request);
  return Ok{};
}

}  // namespace winnow
