// ExitDeadline: ends a process even if a part of it never ends.
#ifndef WINNOW_CLI_COMMAND_EXIT_DEADLINE_H_
#define WINNOW_CLI_COMMAND_EXIT_DEADLINE_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace winnow {

// Owned by a command that has no more output, and made before the parts that
// may never end. A thread that waits for a dead disk cannot be joined. Once
// set, the process ends after `grace` with `status`, without destructors,
// unless this is destroyed before. It then prints `untold_error`, which nobody
// else would print.
class ExitDeadline {
 public:
  ExitDeadline() = default;
  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;
  ~ExitDeadline();

  // REQUIRES: not set before.
  void Set(std::chrono::milliseconds grace, int status,
           std::string untold_error = {});

 private:
  std::mutex mutex_;  // guards the members below
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::thread thread_;  // last
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_EXIT_DEADLINE_H_
