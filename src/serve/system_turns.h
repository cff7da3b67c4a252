// The system's turns of a chat, for templates that take the first turn alone.
#ifndef WINNOW_SERVE_SYSTEM_TURNS_H_
#define WINNOW_SERVE_SYSTEM_TURNS_H_

#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// REQUIRES, of all here: `messages_json` is a valid list for ChatInput.

// Whether a turn of the system's stands behind the first turn.
bool HasLaterSystemTurn(std::string_view messages_json);

// The same with a mark of its own behind each of the system's texts: a template
// that writes all marks has left out no such text.
struct MarkedSystemTurns {
  std::string messages_json;
  std::vector<std::string> marks = {};
};
MarkedSystemTurns WithSystemTurnsMarked(std::string_view messages_json);
// Whether all of them are in the text. Linear where they are in their order.
bool HasAll(std::string_view text, const std::vector<std::string>& marks);

// The system's texts as one turn, the first, in order, with a blank line
// between them. `joins_users`: what the user said before and behind a turn that
// was taken away is one turn, a line each.
std::string WithOneSystemTurn(std::string_view messages_json, bool joins_users);

}  // namespace winnow

#endif  // WINNOW_SERVE_SYSTEM_TURNS_H_
