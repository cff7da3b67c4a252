// Reads requests of /v1/responses as chats.
#ifndef WINNOW_SERVE_REQUEST_RESPONSES_REQUEST_H_
#define WINNOW_SERVE_REQUEST_RESPONSES_REQUEST_H_

#include "serve/request/request_parts.h"

namespace winnow {

// Reads this route's own fields: input and instructions as messages, tools,
// lengths, log probabilities, and the values that the answer repeats. Fails
// with a line that names the field.
Status ReadResponsesRequest(const RequestBody& body, const RequestRules& rules,
                            CompletionRequest& request);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_RESPONSES_REQUEST_H_
