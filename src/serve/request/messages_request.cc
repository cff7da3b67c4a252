#include "serve/request/messages_request.h"

#include "serve/request/chat_messages.h"
#include "serve/request/message_blocks.h"
#include "serve/request/request_grammar.h"
#include "serve/request/request_ranges.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

struct SaidMessage {
  const json& message;
  std::string_view written;
  std::string field;
  bool is_last = false;            // of all
  bool has_later_of_user = false;  // a message behind it
};

Status AddMessage(const SaidMessage& said, BlocksReader& reader,
                  LeftOutKinds& left_out) {
  const json& message = said.message;
  if (!message.is_object()) return WrongField(said.field, "an object");
  const json role = message.value("role", json());
  json content = message.value("content", json());
  const std::string inside = said.field + ".content";
  // OpenAI's name of the same.
  if (role == "system" || role == "developer") {
    if (!message.value("output_config", json()).is_null()) {
      left_out.Add("messages.output_config");
    }
    // It may be told to one turn of the user's alone, that before the next.
    const bool is_cleared =
        message.value("clear_at", json()) == "next_user_message" &&
        said.has_later_of_user;
    return is_cleared ? Status(Ok{}) : reader.AddSystem(content, inside);
  }
  const bool known = role == "user" || role == "assistant";
  if (!known && (said.is_last || !role.is_string())) {
    return WrongField(said.field + ".role",
                      "\"user\", \"assistant\" or \"system\"");
  }
  if (!known) {
    left_out.Add("messages.role." + role.get<std::string>());
    return Ok{};
  }
  const bool is_asked = said.is_last && role == "user";
  const bool says_nothing = role == "assistant" && content.is_null();
  if (says_nothing) content = json::array();
  ASSIGN_OR_RETURN(const MessageBlocks blocks,
                   reader.BlocksOf(content, MemberOf(said.written, "content"),
                                   inside, is_asked));
  if (role == "assistant") return reader.AddAssistant(blocks, inside);
  return reader.AddUser(blocks, inside, is_asked);
}

// That it is a string or a list of parts; a part may lack its text.
Status CheckSystem(const json& system) {
  if (system.is_null() || system.is_string()) return Ok{};
  if (!system.is_array()) {
    return WrongField("system", "a string or a list of parts");
  }
  for (size_t i = 0; i < system.size(); ++i) {
    const json& part = system[i];
    if (part.is_object() && part.value("type", json()).is_string()) continue;
    return WrongField(fmt::format("system[{}].type", i),
                      "a string, \"text\" for one");
  }
  return Ok{};
}

Result<std::vector<ChatTurn>> ReadTurns(const RequestBody& body,
                                        const JsonLimits& limits,
                                        LeftOutKinds& left_out) {
  BlocksReader reader(limits, left_out);
  const json system = body.Value("system");
  RETURN_IF_ERROR(CheckSystem(system));
  RETURN_IF_ERROR(reader.AddSystem(system, "system"));
  const json messages = body.Value("messages");
  const std::vector<std::string_view> written =
      ElementsOf(MemberOf(body.text, "messages"));
  if (!messages.is_array() || messages.empty() ||
      messages.size() > kMaxMessages) {
    return WrongField("messages",
                      fmt::format("a list of 1 to {} messages", kMaxMessages));
  }
  size_t last_of_user = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const json& each = messages[i];
    const bool is_users =
        each.is_object() && each.value("role", json()) == "user";
    if (is_users) last_of_user = i;
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const SaidMessage said = {.message = messages[i],
                              .written = written[i],
                              .field = fmt::format("messages[{}]", i),
                              .is_last = i + 1 == messages.size(),
                              .has_later_of_user = last_of_user > i};
    RETURN_IF_ERROR(AddMessage(said, reader, left_out));
  }
  return reader.TakeTurns();
}

// An answer goes on where the assistant's last words end, unless the request
// says itself whether.
Status ContinueLast(const RequestBody& body, const std::vector<ChatTurn>& turns,
                    CompletionRequest& request) {
  const bool is_said = body.fields.Has("continue_final_message") ||
                       body.fields.Has("add_generation_prompt");
  // What the user says may be nothing at all, and no turn.
  const json& last = body.document.at("messages").back();
  if (last.at("role") != "assistant" || is_said) return Ok{};
  // It ends with what a server ran: the next turn is the assistant's own.
  if (turns.back().role != "assistant") return Ok{};
  if (!turns.back().content.is_string() || !turns.back().calls.empty()) {
    return WrongField("messages",
                      "ended by the user, or by words of the assistant");
  }
  request.continues_message = true;
  request.add_generation_prompt = false;
  return Ok{};
}

// {"type": "auto", "none", "any" or "tool", "disable_parallel_tool_use": ...}.
Result<ToolChoice> ReadChoice(const RequestBody& body,
                              CompletionRequest& request) {
  if (!body.fields.Has("tool_choice")) return ToolChoice();
  ASSIGN_OR_RETURN(const JsonFields choice, body.fields.Object("tool_choice"));
  ASSIGN_OR_RETURN(request.one_call,
                   choice.Flag("disable_parallel_tool_use", false));
  ASSIGN_OR_RETURN(const std::string type, choice.Text("type"));
  if (type == "auto") return ToolChoice();
  if (type == "none") return ToolChoice{.any = false};
  if (type == "any") return ToolChoice{.forced = true};
  if (type != "tool") {
    return WrongField("tool_choice.type",
                      "\"auto\", \"none\", \"any\" or \"tool\"");
  }
  ASSIGN_OR_RETURN(std::string name, choice.Text("name"));
  return ToolChoice{.forced = true, .name = std::move(name)};
}

// output_config's "format", and "output_format", its older name.
Status ReadOutput(const RequestBody& body, CompletionRequest& request) {
  if (body.fields.Has("output_format")) {
    RETURN_IF_ERROR(ReadFormat(body.Value("output_format"),
                               MemberOf(body.text, "output_format"),
                               "output_format", /*nested=*/false, request));
  }
  if (!body.fields.Has("output_config")) return Ok{};
  const json config = body.Value("output_config");
  if (!config.is_object()) return WrongField("output_config", "an object");
  for (const auto& [name, value] : config.items()) {
    if (value.is_null()) continue;
    const std::string field = "output_config." + name;
    if (name == "effort") {
      RETURN_IF_ERROR(ReadEffort(value, field, request.thoughts));
      continue;
    }
    if (name != "format") {
      request.ignored.push_back(field);
      continue;
    }
    const std::string_view raw =
        MemberOf(MemberOf(body.text, "output_config"), "format");
    RETURN_IF_ERROR(ReadFormat(value, raw, field, /*nested=*/false, request));
  }
  return Ok{};
}

}  // namespace

Status ReadMessagesRequest(const RequestBody& body, const RequestRules& rules,
                           CompletionRequest& request) {
  LeftOutKinds left_out;
  ASSIGN_OR_RETURN(const std::vector<ChatTurn> turns,
                   ReadTurns(body, rules.json, left_out));
  request.messages_json = TurnsJson(turns);
  AddIgnored(left_out, request);
  ASSIGN_OR_RETURN(const ToolChoice choice, ReadChoice(body, request));
  RETURN_IF_ERROR(ReadToolsAndTemplate(body, choice, request));
  RETURN_IF_ERROR(ContinueLast(body, turns, request));
  RETURN_IF_ERROR(ReadSampling(body.fields, rules, request));
  RETURN_IF_ERROR(ReadThinking(body.fields, request.thoughts, request.ignored));
  RETURN_IF_ERROR(ReadOutput(body, request));
  if (request.endpoint == Endpoint::kMessageTokens) return Ok{};
  ASSIGN_OR_RETURN(const int64_t number,
                   body.fields.Integer("max_tokens", kMaxTokensRange));
  request.max_tokens = static_cast<int>(number);
  return ReadStops(body, "stop_sequences", request);
}

}  // namespace winnow
