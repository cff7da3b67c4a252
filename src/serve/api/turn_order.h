// Turns of a chat in the order that its template takes.
#ifndef WINNOW_SERVE_API_TURN_ORDER_H_
#define WINNOW_SERVE_API_TURN_ORDER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace winnow {

// The prompt of `input` by a template. If the system has turns behind the first
// one, the template is tried: where it raises, or leaves out a text of the
// system's, all of them become the first turn. If it raises again, turns of one
// side that follow each other become one, and ids of calls become short, as
// Mistral's templates demand both. Fails as the template does where it raises
// then too. `joins_users`: the user's texts around a turn of the system's that
// was taken away become one turn.
Result<std::string> RenderTurns(const ChatTemplate& chat_template,
                                const ChatInput& input, bool joins_users);

// REQUIRES, of all that follow: `messages_json` is a valid list for ChatInput.

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
// between them.
std::string WithOneSystemTurn(std::string_view messages_json, bool joins_users);

// Texts of the user's, or of the assistant's, that follow each other as one
// turn, a line each; none where there are none.
std::optional<std::string> WithTurnsJoined(std::string_view messages_json);
// Each id of a call as nine letters and digits, the same for the same, and one
// for each call or result without; none where all are.
std::optional<std::string> WithShortCallIds(std::string_view messages_json);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_TURN_ORDER_H_
