#include "serve/request/api_error.h"

#include <utility>

namespace winnow {

ApiError ApiErrorOf(const Error& error) {
  return {.status = error.code == ErrorCode::kIo ? 503 : 400,
          .message = error.message,
          .field = FieldNamedIn(error.message)};
}

ApiError LateError(std::string message) {
  return {.status = 504,
          .message = std::move(message),
          .code = "timeout",
          // Clients would ask again, for as long.
          .headers = {{"x-should-retry", "false"}}};
}

std::string FieldNamedIn(std::string_view message) {
  constexpr std::string_view kBegin = "request: field ";
  if (!message.starts_with(kBegin)) return {};
  message.remove_prefix(kBegin.size());
  return std::string(message.substr(0, message.find(':')));
}

}  // namespace winnow
