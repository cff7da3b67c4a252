// The treatment of each field that a request for a completion may have.
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
  kMessageTokens,  // as kMessages, but only counts the prompt's tokens
};

struct RequestField {
  enum class Use {
    kRead,     // it has its documented effect
    kIgnored,  // it changes no answer here: accepted, and named in the answer
    kRefused,  // it would change the answer in a way that this server cannot
               // provide
  };
  std::string_view name;
  Use use = Use::kRead;
  std::string_view reason = {};  // for kRefused
  // For kRefused: a JSON list of values without effect, which are accepted.
  std::string_view neutral = "[]";
};

// Every field that the route's own clients or vLLM's know.
std::vector<RequestField> FieldsOf(Endpoint endpoint);

// Returns the names of fields without effect, unknown ones included. Fails on a
// refused field, with its reason. null counts as absent.
Result<std::vector<std::string>> CheckFields(const nlohmann::json& request,
                                             Endpoint endpoint);

// The answer's headers for such names; none for no names. Names that a header
// cannot carry, and names behind the first many, are counted but not named.
HttpHeaders IgnoredFieldsHeaders(const std::vector<std::string>& names);

// "request: field FIELD: must be EXPECTED".
Error WrongField(const std::string& field, std::string_view expected);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_FIELDS_H_
