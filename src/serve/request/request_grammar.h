// What of a request holds its answer to a grammar.
#ifndef WINNOW_SERVE_REQUEST_REQUEST_GRAMMAR_H_
#define WINNOW_SERVE_REQUEST_REQUEST_GRAMMAR_H_

#include "serve/request/request_parts.h"

namespace winnow {

// vLLM's guided_json, guided_regex, guided_choice and guided_grammar, the same
// in structured_outputs, and, of completions and chats, response_format. One of
// them at most; schemas in the client's own order of names. Beside tools that
// must be called none counts: it is among the ignored then. Fails with a line
// that names the field, what it must be and what it is.
Status ReadGrammar(const RequestBody& body, CompletionRequest& request);

// {"type": "text"}, {"type": "json_object"}, or {"type": "json_schema"} with
// its schema in "json_schema", or, where `nested` is false, beside "type".
// Nothing where it asks for none. `raw`: the same as it was written.
Status ReadFormat(const nlohmann::json& format, std::string_view raw,
                  const std::string& field, bool nested,
                  CompletionRequest& request);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_GRAMMAR_H_
