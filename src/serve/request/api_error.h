// What a client is told where its request fails.
#ifndef WINNOW_SERVE_REQUEST_API_ERROR_H_
#define WINNOW_SERVE_REQUEST_API_ERROR_H_

#include <chrono>
#include <string>

#include "base/result.h"
#include "serve/http/http_message.h"

namespace winnow {

struct ApiError {
  int status = 400;
  std::string message = {};
  std::string field = {};  // empty: about none
  std::string code = {};   // empty: by status
  HttpHeaders headers = {};
};

// As a request's reader or the engine says it: 400, with the field that a
// message "request: field NAME: ..." is about; 503 where the device has failed.
ApiError ApiErrorOf(const Error& error);

// So long behind its deadline an answer waits for what it cannot interrupt, a
// step or the encoding of its prompt; then its client is told.
inline constexpr std::chrono::milliseconds kMaxLateness{100};

// What a client is told whose request is late: 504.
ApiError LateError(std::string message);

// The field that such a line is about; "" where it is about none.
std::string FieldNamedIn(std::string_view message);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_API_ERROR_H_
