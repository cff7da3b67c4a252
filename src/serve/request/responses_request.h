// Requests of /v1/responses, read as chats.
#ifndef WINNOW_SERVE_REQUEST_RESPONSES_REQUEST_H_
#define WINNOW_SERVE_REQUEST_RESPONSES_REQUEST_H_

#include "serve/request/request_parts.h"

namespace winnow {

// What is this route's own: input and instructions as messages, tools, lengths,
// log probabilities, and what the answer says again. Fails with a line that
// names the field.
Status ReadResponsesRequest(const RequestBody& body, const RequestRules& rules,
                            CompletionRequest& request);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_RESPONSES_REQUEST_H_
