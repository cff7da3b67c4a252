// What becomes of each field that a request for a completion may have.
#ifndef WINNOW_SERVE_REQUEST_REQUEST_FIELDS_H_
#define WINNOW_SERVE_REQUEST_REQUEST_FIELDS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/http/http_message.h"

namespace winnow {

enum class Endpoint {
  kCompletions,
  kChatCompletions,
  kResponses,
  kMessages,
  kMessageTokens,  // the same, of which only the prompt is counted
};

struct RequestField {
  enum class Use {
    kRead,     // it does what it says
    kIgnored,  // it changes no answer here: taken, and named in the answer
    kRefused,  // it would change the answer, which this server cannot
  };
  std::string_view name;
  Use use = Use::kRead;
  std::string_view reason = {};  // of kRefused
  // Of kRefused: a JSON list of values that ask for nothing.
  std::string_view neutral = "[]";
};

// Every field that the route's own clients or vLLM's know.
std::vector<RequestField> FieldsOf(Endpoint endpoint);

// The names of the fields that change nothing, also of those that nobody knows.
// Fails on one that is refused, with its reason. null is as good as absent.
Result<std::vector<std::string>> CheckFields(const nlohmann::json& request,
                                             Endpoint endpoint);

// What an answer says of such names; none of none. Those that a header cannot
// carry, and those behind the first of many, are told of, but not by name.
HttpHeaders IgnoredFieldsHeaders(const std::vector<std::string>& names);

// "request: field FIELD: must be EXPECTED".
Error WrongField(const std::string& field, std::string_view expected);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_FIELDS_H_
