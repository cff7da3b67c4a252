// JSON as sent over the wire, and its events.
#ifndef WINNOW_SERVE_ANSWER_JSON_TEXT_H_
#define WINNOW_SERVE_ANSWER_JSON_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace winnow {

// One line. Invalid UTF-8 is replaced.
std::string DumpJson(const nlohmann::ordered_json& value);
// "data: TEXT" and an empty line; with a name, "event: NAME" before it.
// REQUIRES: no line break in either.
std::string SseEvent(std::string_view text, std::string_view name = {});

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_JSON_TEXT_H_
