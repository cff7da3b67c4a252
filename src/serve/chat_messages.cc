#include "serve/chat_messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "serve/request_fields.h"
#include "serve/request_ranges.h"

namespace winnow {
namespace {

using nlohmann::json;

// As templates have an assistant's thoughts.
constexpr const char* kThoughtName = "reasoning_content";

// The members of a call of the assistant's; templates read an object where the
// interface has its text.
Result<std::string> CallText(const json& call, const std::string& field,
                             const JsonLimits& limits) {
  if (!call.is_object()) return WrongField(field, "an object");
  const json function = call.value("function", json());
  if (!function.is_object())
    return WrongField(field + ".function", "an object");
  const json id = call.value("id", json(""));
  const json name = function.value("name", json());
  const json arguments = function.value("arguments", json("{}"));
  if (!id.is_string()) return WrongField(field + ".id", "a string");
  if (!name.is_string()) {
    return WrongField(field + ".function.name", "a string");
  }
  const WrittenCall written = {.id = id.get<std::string>(),
                               .name = name.get<std::string>(),
                               .arguments = arguments.is_string()
                                                ? arguments.get<std::string>()
                                                : arguments.dump()};
  return CallJson(written, field + ".function.arguments", limits);
}

Result<std::string> CallsText(const json& calls, const std::string& field,
                              const JsonLimits& limits) {
  if (!calls.is_array() || calls.size() > kMaxToolCalls) {
    return WrongField(field,
                      fmt::format("a list of at most {}", kMaxToolCalls));
  }
  std::string text;
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSIGN_OR_RETURN(
        const std::string call,
        CallText(calls[i], fmt::format("{}[{}]", field, i), limits));
    text += (i == 0 ? "" : ",") + call;
  }
  return "[" + text + "]";
}

Result<std::string> MessageText(const json& given, const std::string& field,
                                const JsonLimits& limits) {
  if (!given.is_object()) return WrongField(field, "an object");
  json message = given;
  const json role = given.value("role", json());
  // Newer clients call so what templates know as the system's.
  if (role == "developer") message["role"] = "system";
  constexpr std::string_view kRoles[] = {"system", "developer", "user",
                                         "assistant", "tool"};
  const bool known =
      role.is_string() &&
      std::ranges::find(kRoles, role.get<std::string>()) != std::end(kRoles);
  if (!known) {
    return WrongField(field + ".role",
                      "\"system\", \"developer\", \"user\", \"assistant\" or "
                      "\"tool\"");
  }
  ASSIGN_OR_RETURN(message["content"],
                   TextOfParts(given.value("content", json()),
                               field + ".content", "\"text\""));
  const json calls = given.value("tool_calls", json());
  const bool calls_any = !calls.is_null() && calls != json::array();
  if (message["content"].is_null() && role == "assistant") {
    // Beside calls templates know null.
    if (!calls_any) message["content"] = "";
  } else if (message["content"].is_null()) {
    return WrongField(field + ".content",
                      "a string or a list of parts, is missing");
  }
  const json thought = given.value("reasoning", json());
  if (thought.is_string() && !given.contains(kThoughtName)) {
    message[kThoughtName] = thought;
  }
  message.erase("tool_calls");
  std::string text = message.dump();
  if (!calls_any) return text;
  ASSIGN_OR_RETURN(const std::string shown,
                   CallsText(calls, field + ".tool_calls", limits));
  text.pop_back();
  return text + ",\"tool_calls\":" + shown + "}";
}

// `types`: quoted, with other words between.
bool IsAmong(const json& type, std::string_view types) {
  if (!type.is_string()) return false;
  const auto& name = type.get_ref<const std::string&>();
  const bool is_word = name.find_first_of(" ,") == std::string::npos;
  return is_word && types.find(type.dump()) != std::string_view::npos;
}

}  // namespace

Result<std::string> CallJson(const WrittenCall& call, const std::string& field,
                             const JsonLimits& limits) {
  const bool none = call.arguments.empty();
  if (!none) {
    const auto checked = JsonFields::Parse(call.arguments, "arguments", limits);
    if (!checked.ok()) {
      return WrongField(
          field, "the text of a JSON object: " + checked.error().message);
    }
  }
  const json id(call.id), name(call.name);
  const std::string function = fmt::format(
      R"("name":{},"arguments":{})", name.dump(), none ? "{}" : call.arguments);
  return fmt::format(R"({{"id":{},"type":"function","function":{{{}}}}})",
                     id.dump(), function);
}

Result<json> TextOfParts(const json& content, const std::string& field,
                         std::string_view types) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) {
    return WrongField(field, "a string or a list of parts");
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const json& part = content[i];
    const std::string name = fmt::format("{}[{}]", field, i);
    const json type = part.is_object() ? part.value("type", json()) : json();
    if (!IsAmong(type, types)) {
      return WrongField(name + ".type",
                        fmt::format("{}: the model reads text alone", types));
    }
    const json piece = part.value("text", json());
    if (!piece.is_string()) return WrongField(name + ".text", "a string");
    text += piece.get<std::string>();
  }
  return json(std::move(text));
}

std::string TurnsJson(const std::vector<ChatTurn>& turns) {
  std::string list = "[";
  for (const ChatTurn& turn : turns) {
    json message = {{"role", turn.role}, {"content", turn.content}};
    // A thought alone. Beside calls templates know null.
    const bool says_nothing = turn.content.is_null() && turn.calls.empty();
    if (says_nothing) message["content"] = "";
    if (turn.role == "tool") message["tool_call_id"] = turn.tool_call_id;
    if (!turn.thought.is_null()) message[kThoughtName] = turn.thought;
    std::string text = message.dump();
    if (!turn.calls.empty()) {
      text.pop_back();
      text += fmt::format(",\"tool_calls\":[{}]}}", fmt::join(turn.calls, ","));
    }
    list += (list.size() > 1 ? "," : "") + text;
  }
  return list + "]";
}

Result<std::string> ChatMessagesJson(const json& messages,
                                     const JsonLimits& limits) {
  if (!messages.is_array() || messages.empty() ||
      messages.size() > kMaxMessages) {
    return WrongField("messages",
                      fmt::format("a list of 1 to {} messages", kMaxMessages));
  }
  std::string list;
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSIGN_OR_RETURN(
        const std::string text,
        MessageText(messages[i], fmt::format("messages[{}]", i), limits));
    list += (i == 0 ? "[" : ",") + text;
  }
  return list + "]";
}

}  // namespace winnow
