#include "engine/request/request.h"

namespace winnow {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  CHECK(false, "reason={}", static_cast<int>(reason));
}

}  // namespace winnow
