#include "serve/turn_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "serve/answer_style.h"
#include "text/json_slices.h"

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

// Of a role and a text, or parts of one, alone.
bool IsPlain(std::string_view message) {
  const std::string_view content = MemberOf(message, "content");
  return MembersOf(message).size() == 2 &&
         (content.starts_with('"') || content.starts_with('['));
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
  // Behind the last one's text, on a line of its own.
  // REQUIRES: the last one is plain.
  void Join(std::string_view message) {
    if (joined_.empty()) joined_ = ContentText(last_);
    joined_ += "\n" + ContentText(message);
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
    if (joined_.empty()) {
      list_ += last_;
    } else {
      list_ += Turn(RoleIn(last_), joined_);
    }
    last_ = {};
    joined_.clear();
  }

  std::string list_;
  std::string_view last_;
  std::string joined_;
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
  std::vector<std::string_view> ids;
  for (const std::string_view message : ElementsOf(messages_json)) {
    for (const auto call : ElementsOf(MemberOf(message, "tool_calls"))) {
      ids.push_back(MemberOf(call, "id"));
    }
    ids.push_back(MemberOf(message, "tool_call_id"));
  }
  std::erase_if(ids, [](std::string_view id) {
    return !id.starts_with('"') || IsShortId(id);
  });
  if (ids.empty()) return std::nullopt;
  std::string changed;
  const char* copied = messages_json.data();
  for (const std::string_view id : ids) {
    changed.append(copied, id.data());
    changed += "\"" + CallId(id, 0, 0) + "\"";
    copied = id.data() + id.size();
  }
  return changed.append(copied, messages_json.data() + messages_json.size());
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
