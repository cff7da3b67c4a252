#include "serve/request/responses_request.h"

#include "serve/request/chat_messages.h"
#include "serve/request/input_items.h"
#include "serve/request/request_grammar.h"
#include "serve/request/request_ranges.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

Status ReadInput(const RequestBody& body, const JsonLimits& limits,
                 CompletionRequest& request) {
  ASSIGN_OR_RETURN(const std::string instructions,
                   body.fields.Text("instructions", ""));
  LeftOutKinds left_out;
  InputReader reader(limits, left_out);
  reader.AddInstructions(instructions);
  const json input = body.Value("input");
  const bool is_list =
      input.is_array() && !input.empty() && input.size() <= kMaxMessages;
  if (input.is_string()) {
    reader.AddUser(input.get<std::string>());
  } else if (is_list) {
    const auto items = ElementsOf(MemberOf(body.text, "input"));
    for (size_t i = 0; i < items.size(); ++i) {
      RETURN_IF_ERROR(reader.AddItem(items[i], fmt::format("input[{}]", i),
                                     i + 1 == items.size()));
    }
  } else {
    return WrongField("input", fmt::format("a string, or a list of 1 to {} "
                                           "items",
                                           kMaxMessages));
  }
  if (!reader.tells_any()) {
    const auto& names = left_out.names();
    return WrongField(
        "input",
        fmt::format("a list with an item that the model can be told{}",
                    names.empty() ? "" : ", not " + Printable(names[0])));
  }
  request.messages_json = TurnsJson(reader.TakeTurns());
  AddIgnored(left_out, request);
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
    // Of tools that a service runs, and images: none are here.
    if (name != kLogprobs && name != kThoughts) {
      request.ignored.push_back("include." + name);
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
