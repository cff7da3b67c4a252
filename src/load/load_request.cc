#include "load/load_request.h"

namespace winnow {

std::string FaultName(const LoadOutcome& outcome) {
  switch (outcome.fault) {
    case Fault::kNone:
      return "none";
    case Fault::kRefused:
      return "refused";
    case Fault::kNotReached:
      return "not reached";
    case Fault::kTimedOut:
      return "timed out";
    case Fault::kStatus:
      return fmt::format("status {}", outcome.status);
    case Fault::kBrokenStream:
      return "broken stream";
    case Fault::kBadAnswer:
      return "bad answer";
    case Fault::kServerError:
      return "server error";
    case Fault::kInterrupted:
      return "interrupted";
  }
  CHECK(false, "fault={}", static_cast<int>(outcome.fault));
}

}  // namespace winnow
