// UntoldTurns: the kinds of turns that a template never writes.
#ifndef WINNOW_SERVE_API_UNTOLD_TURNS_H_
#define WINNOW_SERVE_API_UNTOLD_TURNS_H_

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace winnow {

struct UntoldTurns {
  bool system = false;   // texts of the system
  bool calls = false;    // the assistant's earlier calls of tools
  bool results = false;  // results of tools

  // Renders chats whose texts and names are marks. A chat that the template
  // refuses counts as written, because a request with such turns fails too.
  static UntoldTurns Of(const ChatTemplate& chat_template);

  // The kinds among these that `messages_json` (ChatInput) contains:
  // "FIELD.system", "FIELD.tool_calls", "FIELD.tool".
  std::vector<std::string> NamesIn(std::string_view messages_json,
                                   std::string_view field) const;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_API_UNTOLD_TURNS_H_
