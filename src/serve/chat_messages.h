// The messages of a chat, from what a client sends to what templates read.
#ifndef WINNOW_SERVE_CHAT_MESSAGES_H_
#define WINNOW_SERVE_CHAT_MESSAGES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/json_fields.h"

namespace winnow {

inline constexpr size_t kMaxMessages = 16 << 10;

// One turn of a chat that another interface spells differently.
struct ChatTurn {
  std::string role;
  nlohmann::json content = nullptr;     // a string, or null beside calls
  std::vector<std::string> calls = {};  // CallJson, of the assistant's
  std::string tool_call_id = {};        // of a tool's
  nlohmann::json thought = nullptr;     // the assistant's before it, or null
};
// A JSON list for ChatInput.
std::string TurnsJson(const std::vector<ChatTurn>& turns);

// The same of what chats send: parts of text are put together, "developer" is
// "system", the arguments of a tool's call are the object that their text is,
// as transformers has it, and thoughts, "reasoning" to newer clients, are
// "reasoning_content", as templates have it. An assistant may have said
// nothing.
Result<std::string> ChatMessagesJson(const nlohmann::json& messages,
                                     const JsonLimits& limits);

// Text, or a list of parts whose type is one of `types` (quoted, in one
// string) and whose "text" is put together; null where there is none.
Result<nlohmann::json> TextOfParts(const nlohmann::json& content,
                                   const std::string& field,
                                   std::string_view types);

// {"id": ID, "type": "function", "function": {"name": NAME, "arguments":
// {...}}}. Fails where `arguments` is not the text of an object.
struct WrittenCall {
  std::string id;
  std::string name;
  std::string arguments;
};
Result<std::string> CallJson(const WrittenCall& call, const std::string& field,
                             const JsonLimits& limits);

}  // namespace winnow

#endif  // WINNOW_SERVE_CHAT_MESSAGES_H_
