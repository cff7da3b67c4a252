#include "serve/api/turn_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "serve/answer/answer_style.h"
#include "serve/request/chat_messages.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

std::string_view RoleIn(std::string_view message) {
  return MemberOf(message, "role");
}

bool IsSystem(std::string_view message) {
  return RoleIn(message) == "\"system\"";
}

// A string's text, or that of a list's parts.
std::string ContentText(std::string_view message) {
  const json content = json::parse(MemberOf(message, "content"));
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const json& part : content) {
    const json piece = part.is_object() ? part.value("text", json()) : json();
    if (piece.is_string()) text += piece.get<std::string>();
  }
  return text;
}

bool SaysAny(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") != std::string_view::npos;
}

std::string Turn(std::string_view role, const std::string& content) {
  return fmt::format(R"({{"role":{},"content":{}}})", role,
                     json(content).dump());
}

// Of a side that takes turns: a text, or parts of one, without calls.
bool IsPlain(std::string_view message) {
  const std::string_view role = RoleIn(message);
  const std::string_view content = MemberOf(message, "content");
  const bool is_text = content.starts_with('"') || content.starts_with('[');
  const bool takes_turns =
      role == "\"user\"" || role == "\"assistant\"" || role == "\"system\"";
  return takes_turns && is_text && MemberOf(message, "tool_calls") == "null";
}

bool IsPlainUser(std::string_view message) {
  return RoleIn(message) == "\"user\"" && IsPlain(message);
}

// As CallId makes them: between quotes.
bool IsShortId(std::string_view id) {
  constexpr size_t kNumDigits = 9;
  return id.size() == kNumDigits + 2 &&
         std::ranges::all_of(id.substr(1, kNumDigits), [](unsigned char c) {
           return std::isalnum(c) != 0;
         });
}

// A list of messages as it grows; the last one's text may grow too.
class MessageList {
 public:
  void Add(std::string_view message) {
    End();
    last_ = message;
  }
  // Behind the last one's text, and thought, on a line of its own. Of other
  // members, a name for one, the first one's count.
  // REQUIRES: the last one is plain.
  void Join(std::string_view message) {
    if (!is_joined_) {
      is_joined_ = true;
      joined_ = ContentText(last_);
      AddOthers(last_);
    }
    const std::string text = ContentText(message);
    joined_ += (joined_.empty() || text.empty() ? "" : "\n") + text;
    AddOthers(message);
  }
  std::string_view last() const { return last_; }
  // Behind `first`, if that is any.
  std::string Take(std::string_view first) {
    End();
    const char* comma = first.empty() || list_.empty() ? "" : ",";
    return fmt::format("[{}{}{}]", first, comma, list_);
  }

 private:
  void End() {
    if (last_.empty()) return;
    list_ += list_.empty() ? "" : ",";
    list_ += is_joined_ ? Joined() : std::string(last_);
    last_ = {};
    is_joined_ = false;
    thought_ = std::nullopt;
    others_.clear();
    known_.clear();
  }
  void AddOthers(std::string_view message) {
    for (const auto& [name, value] : MembersOf(message)) {
      if (name == "role" || name == "content") continue;
      if (name == kThoughtName && value.starts_with('"')) {
        const auto piece = json::parse(value).get<std::string>();
        thought_ = thought_ ? *thought_ + "\n" + piece : piece;
        continue;
      }
      if (known_.insert(name).second) others_.emplace_back(name, value);
    }
  }
  std::string Joined() const {
    std::string turn = Turn(RoleIn(last_), joined_);
    turn.pop_back();
    for (const auto& [name, value] : others_) {
      turn += fmt::format(",\"{}\":{}", name, value);
    }
    if (thought_) {
      turn += fmt::format(",\"{}\":{}", kThoughtName, json(*thought_).dump());
    }
    return turn + "}";
  }

  std::string list_;
  std::string_view last_;
  // Of the last one and what is joined with it.
  bool is_joined_ = false;
  std::string joined_;
  std::optional<std::string> thought_;
  std::vector<JsonMember> others_;
  std::unordered_set<std::string_view> known_;  // their names
};

// Ids of calls in the order of the text, each as a template demands it. A call
// without one gets its place's, and a result without one is of the next call of
// the turn before it.
class ShortIds {
 public:
  explicit ShortIds(std::string_view messages_json)
      : text_(messages_json), copied_(messages_json.data()) {}

  void AddMessage(std::string_view message) {
    const auto calls = ElementsOf(MemberOf(message, "tool_calls"));
    if (!calls.empty()) {
      open_.clear();
      num_answered_ = 0;
    }
    for (const std::string_view call : calls) {
      const std::string id =
          IdIn(call, "id", [this] { return CallId("", 0, num_unnamed_++); });
      Put(call, "id", id);
      open_.push_back(id);
    }
    if (RoleIn(message) != "\"tool\"") return;
    const std::string id = IdIn(message, kResultId, [this] {
      return num_answered_ < open_.size() ? open_[num_answered_]
                                          : CallId("", 0, num_unnamed_++);
    });
    Put(message, kResultId, id);
    ++num_answered_;
  }
  // None: all are short.
  std::optional<std::string> Take() {
    if (!any_) return std::nullopt;
    return changed_.append(copied_, text_.data() + text_.size());
  }

 private:
  static constexpr const char* kResultId = "tool_call_id";

  template <typename Otherwise>
  static std::string IdIn(std::string_view object, const char* name,
                          Otherwise otherwise) {
    const std::string_view id = MemberOf(object, name);
    const bool is_named = id.starts_with('"') && id != "\"\"";
    if (!is_named) return otherwise();
    return IsShortId(id) ? std::string(id.substr(1, id.size() - 2))
                         : CallId(id, 0, 0);
  }
  void Put(std::string_view object, const char* name, const std::string& id) {
    const auto members = MembersOf(object);
    const auto member = std::ranges::find(members, name, &JsonMember::first);
    if (member != members.end()) {
      if (IsShortId(member->second)) return;
      const std::string_view before = member->second;
      Change(before.data(), before.size(), fmt::format("\"{}\"", id));
      return;
    }
    // Behind the brace that opens it.
    Change(
        object.data() + 1, 0,
        fmt::format("\"{}\":\"{}\"{}", name, id, members.empty() ? "" : ","));
  }
  void Change(const char* begin, size_t size, const std::string& text) {
    any_ = true;
    changed_.append(copied_, begin);
    changed_ += text;
    copied_ = begin + size;
  }

  const std::string_view text_;
  const char* copied_;
  std::string changed_;
  bool any_ = false;
  int num_unnamed_ = 0;
  std::vector<std::string> open_;  // calls of the last turn that has any
  size_t num_answered_ = 0;        // results behind them
};

}  // namespace

bool HasLaterSystemTurn(std::string_view messages_json) {
  const auto messages = ElementsOf(messages_json);
  for (size_t i = 1; i < messages.size(); ++i) {
    if (IsSystem(messages[i])) return true;
  }
  return false;
}

MarkedSystemTurns WithSystemTurnsMarked(std::string_view messages_json) {
  MarkedSystemTurns marked;
  const char* copied = messages_json.data();
  for (const std::string_view message : ElementsOf(messages_json)) {
    const std::string_view content = MemberOf(message, "content");
    const bool is_text = IsSystem(message) && content.starts_with('"');
    if (!is_text || !SaysAny(ContentText(message))) continue;
    marked.marks.push_back(
        fmt::format("WINNOW_SYSTEM_TEXT_{}_ENDS", marked.marks.size()));
    const char* end = content.data() + content.size() - 1;
    marked.messages_json.append(copied, end);
    marked.messages_json += marked.marks.back();
    copied = end;
  }
  marked.messages_json.append(copied,
                              messages_json.data() + messages_json.size());
  return marked;
}

bool HasAll(std::string_view text, const std::vector<std::string>& marks) {
  size_t at = 0;
  for (const std::string& mark : marks) {
    const size_t next = text.find(mark, at);
    if (next != std::string_view::npos) {
      at = next;
    } else if (text.substr(0, at).find(mark) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

std::string WithOneSystemTurn(std::string_view messages_json,
                              bool joins_users) {
  std::string system;
  MessageList others;
  bool was_system = false;
  for (const std::string_view message : ElementsOf(messages_json)) {
    if (IsSystem(message)) {
      const std::string text = ContentText(message);
      if (SaysAny(text)) system += (system.empty() ? "" : "\n\n") + text;
      was_system = true;
      continue;
    }
    const bool joins = joins_users && was_system &&
                       IsPlainUser(others.last()) && IsPlainUser(message);
    joins ? others.Join(message) : others.Add(message);
    was_system = false;
  }
  return others.Take(SaysAny(system) ? Turn("\"system\"", system)
                                     : std::string());
}

std::optional<std::string> WithTurnsJoined(std::string_view messages_json) {
  MessageList list;
  bool any = false;
  for (const std::string_view message : ElementsOf(messages_json)) {
    const bool joins = IsPlain(list.last()) && IsPlain(message) &&
                       RoleIn(list.last()) == RoleIn(message);
    joins ? list.Join(message) : list.Add(message);
    any = any || joins;
  }
  if (!any) return std::nullopt;
  return list.Take({});
}

std::optional<std::string> WithShortCallIds(std::string_view messages_json) {
  ShortIds ids(messages_json);
  for (const std::string_view message : ElementsOf(messages_json)) {
    ids.AddMessage(message);
  }
  return ids.Take();
}

Result<std::string> RenderTurns(const ChatTemplate& chat_template,
                                const ChatInput& input, bool joins_users) {
  ChatInput placed = input;
  std::string messages;
  if (HasLaterSystemTurn(input.messages_json)) {
    const MarkedSystemTurns marked = WithSystemTurnsMarked(input.messages_json);
    placed.messages_json = marked.messages_json;
    const Result<std::string> tried = chat_template.Render(placed);
    const bool takes = tried.ok() && HasAll(*tried, marked.marks);
    if (!takes) messages = WithOneSystemTurn(input.messages_json, joins_users);
    placed.messages_json = takes ? input.messages_json : messages;
  }
  Result<std::string> text = chat_template.Render(placed);
  if (text.ok() || text.error().code == ErrorCode::kIo) return text;
  const auto joined = WithTurnsJoined(placed.messages_json);
  if (joined) placed.messages_json = *joined;
  const auto short_ids = WithShortCallIds(placed.messages_json);
  if (short_ids) placed.messages_json = *short_ids;
  if (!joined && !short_ids) return text;
  Result<std::string> again = chat_template.Render(placed);
  return again.ok() ? again : text;
}

}  // namespace winnow
