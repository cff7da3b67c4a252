// RenderTurns: a chat's turns in the order that its template accepts.
#ifndef WINNOW_SERVE_API_TURN_ORDER_H_
#define WINNOW_SERVE_API_TURN_ORDER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace winnow {

// Renders the prompt of `input`. If the system has turns behind the first turn,
// tries the template. If the template raises or leaves out a text of the
// system, all system turns become the first turn. If it raises again, adjacent
// turns of one role are joined and ids of calls shortened, because Mistral's
// templates demand both. Fails as the template does if it raises then too.
// `joins_users`: the user's texts around a removed system turn become one turn.
Result<std::string> RenderTurns(const ChatTemplate& chat_template,
                                const ChatInput& input, bool joins_users);

// REQUIRES of all below: `messages_json` is a valid list for ChatInput.

// True if a turn of the system stands behind the first turn.
bool HasLaterSystemTurn(std::string_view messages_json);

// The messages with a mark of its own behind each system text. A template that
// writes all marks has left out no such text.
struct MarkedSystemTurns {
  std::string messages_json;
  std::vector<std::string> marks = {};
};
MarkedSystemTurns WithSystemTurnsMarked(std::string_view messages_json);
// True if all marks are in the text. Linear time if they are in order.
bool HasAll(std::string_view text, const std::vector<std::string>& marks);

// Joins the system's texts as the first turn, in order, with blank lines
// between.
std::string WithOneSystemTurn(std::string_view messages_json, bool joins_users);

// Joins adjacent texts of the user, or of the assistant, into one turn, a line
// each; none if there are none.
std::optional<std::string> WithTurnsJoined(std::string_view messages_json);
// Replaces each id of a call by nine letters and digits, equal for equal ids.
// Adds an id to each call or result without one. None if nothing changes.
std::optional<std::string> WithShortCallIds(std::string_view messages_json);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_TURN_ORDER_H_
