// ApiError: the answer to a failed request.
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
  std::string field = {};  // empty: no field
  std::string code = {};   // empty: by status
  HttpHeaders headers = {};
};

// Turns an error of a request's reader or the engine into an ApiError. 400,
// with the field of "request: field NAME: ..."; 503 if the device has failed.
ApiError ApiErrorOf(const Error& error);

// The time after its deadline for which an answer waits for a step or its
// prompt's encoding, which it cannot interrupt. Then the client gets an error.
inline constexpr std::chrono::milliseconds kMaxLateness{100};

// The error of a late request: 504.
ApiError LateError(std::string message);

// The field that an error line names; "" if none.
std::string FieldNamedIn(std::string_view message);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_API_ERROR_H_
