// WrittenCall: a tool call of an earlier turn.
#ifndef WINNOW_SERVE_REQUEST_WRITTEN_CALL_H_
#define WINNOW_SERVE_REQUEST_WRITTEN_CALL_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/config/json_fields.h"

namespace winnow {

struct WrittenCall {
  std::string id;
  std::string name;
  std::string arguments;  // the model's text
};

// The meaning of a member's name as written between its quotes.
std::string UnescapedName(std::string_view name);

// A call's id. A number becomes its text; another type gives "".
std::string CallIdText(const nlohmann::json& value);

// {"id": ID, "type": "function", "function": {"name": NAME, "arguments":
// {...}}}.
std::string CallJson(const WrittenCall& call, const JsonLimits& limits);

// The object that templates get for a call's arguments, as in transformers. An
// object's text stays, with its order and spelling. Blank text and null become
// {}. Other text, incomplete or not an object, becomes {"INVALID_JSON": TEXT}.
// Clients send this by Anthropic's documentation of fine-grained tool
// streaming. An error would end the conversation instead.
std::string ArgumentsObject(std::string_view text, const JsonLimits& limits);

// The text of arguments that may be a text or a value; `written` is the value
// as it stands in the request.
std::string ArgumentsText(const nlohmann::json& value,
                          std::string_view written);

// The arguments of a tool that takes a single text: {"input": TEXT}.
std::string InputObject(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_WRITTEN_CALL_H_
