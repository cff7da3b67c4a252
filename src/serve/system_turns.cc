#include "serve/system_turns.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

// Of a role and a text alone.
bool IsPlainUser(std::string_view message) {
  return RoleIn(message) == "\"user\"" && MembersOf(message).size() == 2 &&
         MemberOf(message, "content").starts_with('"');
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

}  // namespace winnow
