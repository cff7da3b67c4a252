#include "cli/exit_deadline.h"

#include <unistd.h>

#include "base/check.h"

namespace winnow {

void ExitDeadline::Set(std::chrono::milliseconds grace, int status) {
  CHECK(!thread_.joinable());
  thread_ = std::thread([this, grace, status] {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, grace, [this] { return is_ended_; })) {
      _exit(status);
    }
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
