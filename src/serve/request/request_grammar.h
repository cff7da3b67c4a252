// ReadGrammar: the fields of a request that constrain its answer by a grammar.
#ifndef WINNOW_SERVE_REQUEST_REQUEST_GRAMMAR_H_
#define WINNOW_SERVE_REQUEST_REQUEST_GRAMMAR_H_

#include "serve/request/request_parts.h"

namespace winnow {

// Reads vLLM's guided_json, guided_regex, guided_choice and guided_grammar, the
// same in structured_outputs, and, for completions and chats, response_format.
// At most one may be set. Schemas keep the client's order of names. If tools
// must be called, none has an effect, and it is named as ignored. Fails with a
// line that names the field, the expected value and the value found.
Status ReadGrammar(const RequestBody& body, CompletionRequest& request);

// Reads {"type": "text"}, {"type": "json_object"}, or {"type": "json_schema"}.
// The schema is in "json_schema", or beside "type" if `nested` is false. Does
// nothing if no format is set. `raw`: the format as written.
Status ReadFormat(const nlohmann::json& format, std::string_view raw,
                  const std::string& field, bool nested,
                  CompletionRequest& request);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_GRAMMAR_H_
