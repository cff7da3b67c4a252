#include "cli/command/exit_deadline.h"

#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "cli/command/output.h"

namespace winnow {

void ExitDeadline::Set(std::chrono::milliseconds grace, int status,
                       std::string untold_error) {
  CHECK(!thread_.joinable());
  thread_ = std::thread([this, grace, status, error = std::move(untold_error)] {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, grace, [this] { return is_ended_; })) return;
    if (!error.empty()) PrintError(error);
    _exit(status);
  });
}

ExitDeadline::~ExitDeadline() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace winnow
