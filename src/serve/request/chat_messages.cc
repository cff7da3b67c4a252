#include "serve/request/chat_messages.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "serve/request/content_parts.h"
#include "serve/request/request_fields.h"
#include "serve/request/request_ranges.h"
#include "serve/request/written_call.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr const char* kCallsName = "tool_calls";
constexpr const char* kResultIdName = "tool_call_id";

// The calls of one message. What one lacks is left out and named, so that its
// result still follows a call.
class CallReader {
 public:
  // REQUIRES: both outlive this.
  CallReader(const JsonLimits& limits, LeftOutKinds& left_out)
      : limits_(limits), left_out_(left_out) {}

  // The members of a call of the assistant's; templates read an object where
  // the interface has its text. Empty: it calls nothing.
  std::string CallText(std::string_view written);
  // The older interface's one call.
  std::string OldCallText(std::string_view written);

 private:
  // A function: {"name", "arguments"}; none where it is no object.
  std::optional<WrittenCall> FunctionCall(std::string_view written,
                                          const std::string& place);
  std::optional<WrittenCall> CustomCall(const json& custom);
  std::string Text(const json& object, const char* name,
                   const std::string& place);

  const JsonLimits& limits_;
  LeftOutKinds& left_out_;
};

std::string CallReader::Text(const json& object, const char* name,
                             const std::string& place) {
  const json value = object.value(name, json());
  if (value.is_string()) return value.get<std::string>();
  left_out_.Add(fmt::format("{}.{}", place, name));
  return {};
}

std::optional<WrittenCall> CallReader::FunctionCall(std::string_view written,
                                                    const std::string& place) {
  const json function = json::parse(written);
  if (!function.is_object()) {
    left_out_.Add(place);
    return std::nullopt;
  }
  return WrittenCall{
      .id = {},
      .name = Text(function, "name", place),
      .arguments = ArgumentsText(function.value("arguments", json()),
                                 MemberOf(written, "arguments"))};
}

std::optional<WrittenCall> CallReader::CustomCall(const json& custom) {
  const std::string place = "messages.tool_calls.custom";
  if (!custom.is_object()) {
    left_out_.Add(place);
    return std::nullopt;
  }
  return WrittenCall{.id = {},
                     .name = Text(custom, "name", place),
                     .arguments = InputObject(Text(custom, "input", place))};
}

std::string CallReader::CallText(std::string_view written) {
  const json call = json::parse(written);
  if (!call.is_object()) {
    left_out_.Add("messages.tool_calls");
    return {};
  }
  std::optional<WrittenCall> told =
      call.value("type", json()) == "custom"
          ? CustomCall(call.value("custom", json()))
          : FunctionCall(MemberOf(written, "function"),
                         "messages.tool_calls.function");
  if (!told) return {};
  const json id = call.value("id", json());
  told->id = CallIdText(id);
  if (!id.is_null() && told->id.empty() && id != "") {
    left_out_.Add("messages.tool_calls.id");
  }
  return CallJson(*told, limits_);
}

std::string CallReader::OldCallText(std::string_view written) {
  const auto call = FunctionCall(written, "messages.function_call");
  return call ? CallJson(*call, limits_) : std::string();
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

  // Empty: it is left out, as its role is not known.
  Result<std::string> Read(bool is_last);

 private:
  json Value(const char* name) const { return given_.value(name, json()); }
  // False: it is not known, and left out.
  Result<bool> ReadRole(bool is_last);
  Status ReadContent(bool is_last);
  Status ReadToldContent(bool is_asked);
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

Result<bool> MessageReader::ReadRole(bool is_last) {
  const json role = Value("role");
  constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                         "assistant", "tool",      "function"};
  role_ = role.is_string() ? role.get<std::string>() : std::string();
  const bool known = std::ranges::find(kRoles, role_) != std::end(kRoles);
  if (!known && (is_last || !role.is_string())) {
    return WrongField(field_ + ".role",
                      "\"system\", \"developer\", \"user\", \"assistant\", "
                      "\"tool\" or \"function\"");
  }
  if (!known) left_out_.Add("messages.role." + role_);
  // Newer and older clients' names of what templates know.
  if (role_ == "developer") role_ = "system";
  if (role_ == "function") role_ = "tool";
  return known;
}

Status MessageReader::ReadCalls() {
  const json calls = Value(kCallsName);
  CallReader reader(limits_, left_out_);
  if (calls.is_null() || calls == json::array()) {
    if (role_ != "assistant" || Value("function_call").is_null()) return Ok{};
    calls_ = reader.OldCallText(MemberOf(written_, "function_call"));
    if (!calls_.empty()) calls_ = "[" + calls_ + "]";
    return Ok{};
  }
  if (!calls.is_array()) {
    left_out_.Add("messages.tool_calls");
    return Ok{};
  }
  if (calls.size() > kMaxToolCalls) {
    return WrongField(field_ + "." + kCallsName,
                      fmt::format("a list of at most {}", kMaxToolCalls));
  }
  for (const auto written : ElementsOf(MemberOf(written_, kCallsName))) {
    const std::string call = reader.CallText(written);
    if (call.empty()) continue;
    calls_ += (calls_.empty() ? "[" : ",") + call;
  }
  if (!calls_.empty()) calls_ += "]";
  return Ok{};
}

Status MessageReader::ReadToldContent(bool is_asked) {
  const std::string field = field_ + ".content";
  PartsReader parts(
      "messages.content", left_out_,
      is_asked ? PartsReader::Turn::kAsked : PartsReader::Turn::kEarlier);
  const json content = Value("content");
  if (role_ == "tool") {
    ASSIGN_OR_RETURN(
        content_,
        ResultText(content, MemberOf(written_, "content"), field, parts));
    return Ok{};
  }
  ASSIGN_OR_RETURN(ToldContent told, parts.Read(content, field));
  if (is_asked && !told.untold_field.empty()) {
    return NothingTold(told.untold_field);
  }
  content_ = std::move(told.text);
  // No word is put into the model's own mouth for what is left out.
  const bool is_own = role_ == "assistant" || role_ == "system";
  if (is_own && !told.untold_field.empty()) content_ = "";
  return Ok{};
}

Status MessageReader::ReadContent(bool is_last) {
  const bool is_asked = is_last && role_ == "user";
  RETURN_IF_ERROR(ReadToldContent(is_asked));
  // Some templates read parts; ChatTemplate puts them together for others.
  if (role_ != "system") parts_ = TextPartsJson(Value("content"));
  if (!content_.is_null()) return Ok{};
  if (role_ == "assistant") {
    const json refusal = Value("refusal");
    if (refusal.is_string()) content_ = refusal;
    // Beside calls templates know null.
    if (content_.is_null() && calls_.empty()) content_ = "";
    return Ok{};
  }
  if (is_asked) {
    return WrongField(field_ + ".content",
                      "a string or a list of parts, is missing");
  }
  left_out_.Add("messages.content");
  content_ = "";
  return Ok{};
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
  } else if (name == kResultIdName) {
    const std::string id = CallIdText(Value(kResultIdName));
    if (id.empty() && written != "\"\"") {
      left_out_.Add("messages.tool_call_id");
    } else {
      text_ += fmt::format(",\"{}\":{}", name, json(id).dump());
    }
  } else {
    text_ += fmt::format(",{}:{}", json(name).dump(), written);
  }
}

Result<std::string> MessageReader::Read(bool is_last) {
  if (!given_.is_object()) return WrongField(field_, "an object");
  ASSIGN_OR_RETURN(const bool is_known, ReadRole(is_last));
  if (!is_known) return std::string();
  RETURN_IF_ERROR(ReadCalls());
  RETURN_IF_ERROR(ReadContent(is_last));
  for (const auto& [name, value] : MembersOf(written_)) {
    AddMember(UnescapedName(name), value);
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
    // A thought alone. Beside calls templates know null.
    const bool says_nothing = turn.content.is_null() && turn.calls.empty();
    // In the order that OpenAI's and templates' documents have.
    std::string text =
        fmt::format(R"({{"role":{},"content":{})", json(turn.role).dump(),
                    says_nothing ? std::string("\"\"") : turn.content.dump());
    const auto add = [&text](const char* name, const std::string& value) {
      text += fmt::format(",\"{}\":{}", name, value);
    };
    if (turn.role == "tool") add(kResultIdName, json(turn.tool_call_id).dump());
    if (!turn.thought.is_null()) add(kThoughtName, turn.thought.dump());
    if (!turn.calls.empty()) {
      add(kCallsName, fmt::format("[{}]", fmt::join(turn.calls, ",")));
    }
    text += "}";
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
    if (!text.empty()) list += (list.empty() ? "[" : ",") + text;
  }
  return list + "]";
}

}  // namespace winnow
