#include "serve/chat_messages.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "serve/content_parts.h"
#include "serve/request_fields.h"
#include "serve/request_ranges.h"
#include "serve/written_call.h"
#include "text/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

// As templates have an assistant's thoughts.
constexpr const char* kThoughtName = "reasoning_content";
constexpr const char* kCallsName = "tool_calls";

// A name between quotes, as it is meant.
std::string Unescaped(std::string_view name) {
  return json::parse(fmt::format("\"{}\"", name)).get<std::string>();
}

// A call of a function: {"name", "arguments"}.
Result<WrittenCall> FunctionCall(std::string_view written,
                                 const std::string& field) {
  const json function = json::parse(written);
  if (!function.is_object()) return WrongField(field, "an object");
  WrittenCall call;
  ASSIGN_OR_RETURN(call.name, StringIn(function, field, "name"));
  call.arguments = ArgumentsText(function.value("arguments", json()),
                                 MemberOf(written, "arguments"));
  return call;
}

// The members of a call of the assistant's; templates read an object where the
// interface has its text.
Result<std::string> CallText(std::string_view written, const std::string& field,
                             const JsonLimits& limits) {
  const json call = json::parse(written);
  if (!call.is_object()) return WrongField(field, "an object");
  WrittenCall told;
  if (call.value("type", json()) == "custom") {
    const json custom = call.value("custom", json());
    if (!custom.is_object()) return WrongField(field + ".custom", "an object");
    ASSIGN_OR_RETURN(told.name, StringIn(custom, field + ".custom", "name"));
    ASSIGN_OR_RETURN(const std::string input,
                     StringIn(custom, field + ".custom", "input"));
    told.arguments = InputObject(input);
  } else {
    ASSIGN_OR_RETURN(
        told, FunctionCall(MemberOf(written, "function"), field + ".function"));
  }
  if (!call.value("id", json()).is_null()) {
    ASSIGN_OR_RETURN(told.id, StringIn(call, field, "id"));
  }
  return CallJson(told, limits);
}

// What is told of one message, in the places that the client chose.
class MessageReader {
 public:
  // REQUIRES: `written` is valid JSON; all of these outlive this.
  MessageReader(std::string_view written, const std::string& field,
                const JsonLimits& limits, LeftOutKinds& left_out)
      : written_(written),
        field_(field),
        limits_(limits),
        left_out_(left_out),
        given_(json::parse(written)) {}

  Result<std::string> Read(bool is_last);

 private:
  json Value(const char* name) const { return given_.value(name, json()); }
  Status ReadRole();
  Status ReadContent(bool is_last);
  Status ReadCalls();
  void AddMember(const std::string& name, std::string_view written);
  void AddRead(std::string_view name);

  const std::string_view written_;
  const std::string& field_;
  const JsonLimits& limits_;
  LeftOutKinds& left_out_;
  const json given_;
  std::string role_;
  json content_;
  std::string parts_;  // of the content, if it has texts alone; empty: none
  std::string calls_;  // a list; empty: none
  std::string text_;   // members, with a comma before each
};

Status MessageReader::ReadRole() {
  const json role = Value("role");
  constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                         "assistant", "tool",      "function"};
  const bool known =
      role.is_string() &&
      std::ranges::find(kRoles, role.get<std::string>()) != std::end(kRoles);
  if (!known) {
    return WrongField(field_ + ".role",
                      "\"system\", \"developer\", \"user\", \"assistant\", "
                      "\"tool\" or \"function\"");
  }
  role_ = role.get<std::string>();
  // Newer and older clients' names of what templates know.
  if (role_ == "developer") role_ = "system";
  if (role_ == "function") role_ = "tool";
  return Ok{};
}

Status MessageReader::ReadCalls() {
  const std::string field = field_ + "." + kCallsName;
  const json calls = Value(kCallsName);
  if (calls.is_null() || calls == json::array()) {
    // The older interface's one call.
    if (role_ != "assistant" || Value("function_call").is_null()) return Ok{};
    ASSIGN_OR_RETURN(const WrittenCall call,
                     FunctionCall(MemberOf(written_, "function_call"),
                                  field_ + ".function_call"));
    calls_ = "[" + CallJson(call, limits_) + "]";
    return Ok{};
  }
  if (!calls.is_array() || calls.size() > kMaxToolCalls) {
    return WrongField(field,
                      fmt::format("a list of at most {}", kMaxToolCalls));
  }
  const auto written = ElementsOf(MemberOf(written_, kCallsName));
  for (size_t i = 0; i < written.size(); ++i) {
    ASSIGN_OR_RETURN(
        const std::string call,
        CallText(written[i], fmt::format("{}[{}]", field, i), limits_));
    calls_ += (i == 0 ? "[" : ",") + call;
  }
  calls_ += "]";
  return Ok{};
}

Status MessageReader::ReadContent(bool is_last) {
  const std::string field = field_ + ".content";
  if (role_ == "tool" && Value("content").is_object()) {
    content_ = MemberOf(written_, "content");
    return Ok{};
  }
  PartsReader parts("messages.content", left_out_);
  ASSIGN_OR_RETURN(ToldContent told, parts.Read(Value("content"), field));
  if (is_last && role_ == "user" && !told.untold_field.empty()) {
    return NothingTold(told.untold_field);
  }
  content_ = std::move(told.text);
  // Some templates read parts; ChatTemplate puts them together for others.
  if (role_ != "system") parts_ = TextPartsJson(Value("content"));
  // No word is put into the model's own mouth for what is left out.
  const bool is_own = role_ == "assistant" || role_ == "system";
  if (is_own && !told.untold_field.empty()) content_ = "";
  if (!content_.is_null()) return Ok{};
  if (role_ == "assistant") {
    const json refusal = Value("refusal");
    if (refusal.is_string()) content_ = refusal;
    // Beside calls templates know null.
    if (content_.is_null() && calls_.empty()) content_ = "";
    return Ok{};
  }
  if (role_ == "tool") {
    content_ = "";
    return Ok{};
  }
  return WrongField(field, "a string or a list of parts, is missing");
}

// The members that were read.
void MessageReader::AddRead(std::string_view name) {
  const auto add = [&](std::string_view value) {
    text_ += fmt::format(",\"{}\":{}", name, value);
  };
  if (name == "role") add(json(role_).dump());
  if (name == "content") add(parts_.empty() ? content_.dump() : parts_);
  if (name == kCallsName && !calls_.empty()) add(calls_);
  const bool content_is_next = name == "role" && !given_.contains("content");
  if (content_is_next) AddRead("content");
}

void MessageReader::AddMember(const std::string& name,
                              std::string_view written) {
  if (name == "role" || name == "content" || name == kCallsName) {
    AddRead(name);
  } else if (written == "null" || name == "function_call") {
    return;
  } else if (name == "audio") {
    // Names what an answer said on the server that gave it.
    left_out_.Add("messages.audio");
  } else {
    text_ += fmt::format(",{}:{}", json(name).dump(), written);
  }
}

Result<std::string> MessageReader::Read(bool is_last) {
  if (!given_.is_object()) return WrongField(field_, "an object");
  RETURN_IF_ERROR(ReadRole());
  RETURN_IF_ERROR(ReadCalls());
  RETURN_IF_ERROR(ReadContent(is_last));
  for (const auto& [name, value] : MembersOf(written_)) {
    const bool is_plain = name.find('\\') == std::string_view::npos;
    AddMember(is_plain ? std::string(name) : Unescaped(name), value);
  }
  if (!given_.contains(kCallsName)) AddRead(kCallsName);
  const json thought = Value("reasoning");
  if (thought.is_string() && Value(kThoughtName).is_null()) {
    text_ += fmt::format(",\"{}\":{}", kThoughtName, thought.dump());
  }
  return "{" + text_.substr(1) + "}";
}

}  // namespace

void AddSystemText(const std::string& text, std::vector<ChatTurn>& turns) {
  if (turns.empty() || turns.back().role != "system") {
    turns.push_back({.role = "system", .content = text});
    return;
  }
  json& content = turns.back().content;
  if (text.empty()) return;
  auto& before = content.get_ref<std::string&>();
  before += (before.empty() ? "" : "\n\n") + text;
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
      text +=
          fmt::format(",\"{}\":[{}]}}", kCallsName, fmt::join(turn.calls, ","));
    }
    list += (list.size() > 1 ? "," : "") + text;
  }
  return list + "]";
}

Result<std::string> ChatMessagesJson(std::string_view written,
                                     const JsonLimits& limits,
                                     LeftOutKinds& left_out) {
  const std::vector<std::string_view> messages = ElementsOf(written);
  if (messages.empty() || messages.size() > kMaxMessages) {
    return WrongField("messages",
                      fmt::format("a list of 1 to {} messages", kMaxMessages));
  }
  std::string list;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string field = fmt::format("messages[{}]", i);
    MessageReader reader(messages[i], field, limits, left_out);
    ASSIGN_OR_RETURN(const std::string text,
                     reader.Read(i + 1 == messages.size()));
    list += (i == 0 ? "[" : ",") + text;
  }
  return list + "]";
}

}  // namespace winnow
