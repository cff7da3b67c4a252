// Reads requests of /v1/messages as chats.
#ifndef WINNOW_SERVE_REQUEST_MESSAGES_REQUEST_H_
#define WINNOW_SERVE_REQUEST_MESSAGES_REQUEST_H_

#include "serve/request/request_parts.h"

namespace winnow {

// Reads this route's own fields: system and messages of blocks, tools,
// max_tokens, stop_sequences. Fails with a line that names the field.
Status ReadMessagesRequest(const RequestBody& body, const RequestRules& rules,
                           CompletionRequest& request);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_MESSAGES_REQUEST_H_
