// The messages of a chat, converted from the client's form to the templates'.
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
// The templates' name of an assistant's thoughts.
inline constexpr const char* kThoughtName = "reasoning_content";

// One turn of a chat in another API's form.
struct ChatTurn {
  std::string role;
  nlohmann::json content = nullptr;     // a string, or null beside calls
  std::vector<std::string> calls = {};  // CallJson texts, for the assistant
  std::string tool_call_id = {};        // for a tool
  // The assistant's, before its content; or null.
  nlohmann::json thought = nullptr;

  bool says_nothing() const {
    return content.is_null() && calls.empty() && thought.is_null();
  }
  bool is_thought_alone() const {
    return content.is_null() && calls.empty() && !thought.is_null();
  }
};
// A JSON list for ChatInput.
std::string TurnsJson(const std::vector<ChatTurn>& turns);

// Appends `text` to the last turn if that is the system's, behind a blank line.
// Otherwise adds a turn.
void AddSystemText(const std::string& text, std::vector<ChatTurn>& turns);

// The JSON list for a chat's messages, with names in their written order and
// without nulls. Text parts are joined. "developer" becomes "system", and
// "function" becomes "tool". A call's arguments become an object
// (written_call.h). Thoughts, which newer clients send as "reasoning", become
// "reasoning_content". An assistant or a tool may have no content. `written`:
// "messages" as it stands in the request, which is valid JSON.
Result<std::string> ChatMessagesJson(std::string_view written,
                                     const JsonLimits& limits,
                                     LeftOutKinds& left_out);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_CHAT_MESSAGES_H_
