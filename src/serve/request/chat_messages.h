// The messages of a chat, from what a client sends to what templates read.
#ifndef WINNOW_SERVE_REQUEST_CHAT_MESSAGES_H_
#define WINNOW_SERVE_REQUEST_CHAT_MESSAGES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config/json_fields.h"
#include "serve/request/left_out_kinds.h"

namespace winnow {

inline constexpr size_t kMaxMessages = 16 << 10;
// As templates have an assistant's thoughts.
inline constexpr const char* kThoughtName = "reasoning_content";

// One turn of a chat that another interface spells differently.
struct ChatTurn {
  std::string role;
  nlohmann::json content = nullptr;     // a string, or null beside calls
  std::vector<std::string> calls = {};  // CallJson, of the assistant's
  std::string tool_call_id = {};        // of a tool's
  nlohmann::json thought = nullptr;     // the assistant's before it, or null

  bool says_nothing() const {
    return content.is_null() && calls.empty() && thought.is_null();
  }
  bool is_thought_alone() const {
    return content.is_null() && calls.empty() && !thought.is_null();
  }
};
// A JSON list for ChatInput.
std::string TurnsJson(const std::vector<ChatTurn>& turns);

// The system's text behind that of the system's turn that is last, a blank line
// between them; else a turn of its own.
void AddSystemText(const std::string& text, std::vector<ChatTurn>& turns);

// The same of what chats send, in the order that names were written in, without
// what is null: parts of text are put together, "developer" is "system" and
// "function" is "tool", a call's arguments are an object (written_call.h), and
// thoughts, "reasoning" to newer clients, are "reasoning_content", as templates
// have it. An assistant, and a tool, may have said nothing.
// `written`: "messages" as it stands in the request, which is valid JSON.
Result<std::string> ChatMessagesJson(std::string_view written,
                                     const JsonLimits& limits,
                                     LeftOutKinds& left_out);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_CHAT_MESSAGES_H_
