#include "serve/messages_request.h"

#include "serve/chat_messages.h"
#include "serve/request_grammar.h"
#include "serve/request_ranges.h"
#include "text/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kTextType = "\"text\"";

// A message's content as blocks, each with its own text.
struct Blocks {
  json list;
  std::vector<std::string_view> written;
};

Result<Blocks> BlocksOf(const json& content, std::string_view written,
                        const std::string& field) {
  Blocks blocks;
  if (content.is_string()) {
    blocks.list = json::array({{{"type", "text"}, {"text", content}}});
    blocks.written = {written};
    return blocks;
  }
  if (!content.is_array()) {
    return WrongField(field, "a string or a list of blocks");
  }
  blocks.list = content;
  blocks.written = ElementsOf(written);
  if (blocks.written.size() != content.size()) {
    return WrongField(field, "named without escapes");
  }
  return blocks;
}

Result<std::string> TextOfBlock(const json& block, const std::string& field,
                                std::string_view others) {
  if (block.value("type", json()) != "text") {
    return WrongField(
        field + ".type",
        fmt::format("\"text\" or {}: the model reads text alone", others));
  }
  const json text = block.value("text", json());
  if (!text.is_string()) return WrongField(field + ".text", "a string");
  return text.get<std::string>();
}

Result<std::string> NameIn(const json& block, const std::string& field,
                           const char* name) {
  const json value = block.value(name, json());
  if (!value.is_string()) return WrongField(field + "." + name, "a string");
  return value.get<std::string>();
}

// What follows in the same role is one turn.
void AddText(const std::string& role, const std::string& text,
             std::vector<ChatTurn>& turns, const json& thought = nullptr) {
  const bool continues = !turns.empty() && turns.back().role == role &&
                         turns.back().calls.empty() && thought.is_null();
  if (!continues) {
    turns.push_back({.role = role, .content = text, .thought = thought});
    return;
  }
  turns.back().content = turns.back().content.get<std::string>() + "\n" + text;
}

// A tool's result is a turn of its own, between what the user says.
Status AddUserBlocks(const Blocks& blocks, const std::string& field,
                     std::vector<ChatTurn>& turns) {
  std::string text;
  bool any_text = false;
  const auto end_text = [&] {
    if (any_text) AddText("user", text, turns);
    text.clear();
    any_text = false;
  };
  for (size_t i = 0; i < blocks.list.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    const json& block = blocks.list[i];
    if (!block.is_object()) return WrongField(name, "an object");
    if (block.value("type", json()) == "tool_result") {
      end_text();
      ChatTurn turn = {.role = "tool"};
      ASSIGN_OR_RETURN(turn.tool_call_id, NameIn(block, name, "tool_use_id"));
      ASSIGN_OR_RETURN(turn.content,
                       TextOfParts(block.value("content", json("")),
                                   name + ".content", kTextType));
      if (turn.content.is_null()) turn.content = "";
      turns.push_back(std::move(turn));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string piece,
                     TextOfBlock(block, name, "\"tool_result\""));
    text += piece;
    any_text = true;
  }
  end_text();
  return Ok{};
}

// A template says which thoughts of earlier turns it leaves out.
Status AddAssistantBlocks(const Blocks& blocks, const std::string& field,
                          const JsonLimits& limits,
                          std::vector<ChatTurn>& turns) {
  ChatTurn turn = {.role = "assistant"};
  std::string text;
  for (size_t i = 0; i < blocks.list.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    const json& block = blocks.list[i];
    if (!block.is_object()) return WrongField(name, "an object");
    const json type = block.value("type", json());
    if (type == "redacted_thinking") continue;
    if (type == "thinking") {
      ASSIGN_OR_RETURN(const std::string piece,
                       NameIn(block, name, "thinking"));
      if (piece.empty()) continue;
      turn.thought = turn.thought.is_null()
                         ? piece
                         : turn.thought.get<std::string>() + "\n" + piece;
      continue;
    }
    if (type != "tool_use") {
      ASSIGN_OR_RETURN(const std::string piece,
                       TextOfBlock(block, name, "\"tool_use\""));
      text += piece;
      continue;
    }
    WrittenCall call;
    ASSIGN_OR_RETURN(call.id, NameIn(block, name, "id"));
    ASSIGN_OR_RETURN(call.name, NameIn(block, name, "name"));
    call.arguments = MemberOf(blocks.written[i], "input");
    ASSIGN_OR_RETURN(turn.calls.emplace_back(),
                     CallJson(call, name + ".input", limits));
  }
  if (turn.calls.empty()) {
    AddText("assistant", text, turns, turn.thought);
    return Ok{};
  }
  if (!text.empty()) turn.content = text;
  turns.push_back(std::move(turn));
  return Ok{};
}

Status AddSystem(const RequestBody& body, std::vector<ChatTurn>& turns) {
  if (!body.fields.Has("system")) return Ok{};
  ASSIGN_OR_RETURN(json system,
                   TextOfParts(body.Value("system"), "system", kTextType));
  if (system != "") {
    turns.push_back({.role = "system", .content = std::move(system)});
  }
  return Ok{};
}

Status AddMessages(const RequestBody& body, const JsonLimits& limits,
                   std::vector<ChatTurn>& turns) {
  const json messages = body.Value("messages");
  const std::vector<std::string_view> written =
      ElementsOf(MemberOf(body.text, "messages"));
  if (!messages.is_array() || messages.empty() ||
      messages.size() > kMaxMessages || written.size() != messages.size()) {
    return WrongField("messages",
                      fmt::format("a list of 1 to {} messages", kMaxMessages));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string field = fmt::format("messages[{}]", i);
    if (!messages[i].is_object()) return WrongField(field, "an object");
    const json role = messages[i].value("role", json());
    ASSIGN_OR_RETURN(
        const Blocks blocks,
        BlocksOf(messages[i].value("content", json()),
                 MemberOf(written[i], "content"), field + ".content"));
    if (role == "user") {
      RETURN_IF_ERROR(AddUserBlocks(blocks, field + ".content", turns));
    } else if (role == "assistant") {
      RETURN_IF_ERROR(
          AddAssistantBlocks(blocks, field + ".content", limits, turns));
    } else {
      return WrongField(field + ".role", "\"user\" or \"assistant\"");
    }
  }
  return Ok{};
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
  std::vector<ChatTurn> turns;
  RETURN_IF_ERROR(AddSystem(body, turns));
  RETURN_IF_ERROR(AddMessages(body, rules.json, turns));
  request.messages_json = TurnsJson(turns);
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
