#include "base/result.h"

namespace winnow {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kResourceExhausted:
      return "resource exhausted";
    case ErrorCode::kIo:
      return "input/output";
    case ErrorCode::kCancelled:
      return "cancelled";
  }
  CHECK(false, "code={}", static_cast<int>(code));
}

}  // namespace winnow
