#include "serve/api_error.h"

namespace winnow {

ApiError ApiErrorOf(const Error& error) {
  return {.status = error.code == ErrorCode::kIo ? 503 : 400,
          .message = error.message,
          .field = FieldNamedIn(error.message)};
}

std::string FieldNamedIn(std::string_view message) {
  constexpr std::string_view kBegin = "request: field ";
  if (!message.starts_with(kBegin)) return {};
  message.remove_prefix(kBegin.size());
  return std::string(message.substr(0, message.find(':')));
}

}  // namespace winnow
