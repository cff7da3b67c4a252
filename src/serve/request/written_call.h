// WrittenCall: a call of a tool in what was said before.
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
  std::string arguments;  // a text as the model wrote it
};

// A member's name as it is meant, of one as it is written between its quotes.
std::string UnescapedName(std::string_view name);

// A call's id; a number is told as its text. Empty: it is of another type.
std::string CallIdText(const nlohmann::json& value);

// {"id": ID, "type": "function", "function": {"name": NAME, "arguments":
// {...}}}.
std::string CallJson(const WrittenCall& call, const JsonLimits& limits);

// The object that templates get for a call's arguments, as transformers has it:
// the text of an object as it is, in its own order and spelling. Blank text and
// null are {}. Any other text, cut off or no object, is {"INVALID_JSON": TEXT}.
// Anthropic's documentation of fine-grained tool streaming has clients send
// this. An error instead would end the conversation.
std::string ArgumentsObject(std::string_view text, const JsonLimits& limits);

// The text of arguments that may be a text or a value: `written` is the value
// as it stands in the request.
std::string ArgumentsText(const nlohmann::json& value,
                          std::string_view written);

// The arguments of a tool that takes one text alone: {"input": TEXT}.
std::string InputObject(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_WRITTEN_CALL_H_
