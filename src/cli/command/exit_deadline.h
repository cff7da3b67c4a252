// ExitDeadline: a process that is told to end ends, whatever does not.
#ifndef WINNOW_CLI_COMMAND_EXIT_DEADLINE_H_
#define WINNOW_CLI_COMMAND_EXIT_DEADLINE_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace winnow {

// Owned by a command that has said all that it has to say, and made before what
// may not end: a thread that waits for a disk which never answers cannot be
// joined. Once it is set, the process ends after `grace` with `status`, without
// destructors, unless this ends before; an error that nobody would tell then is
// told by it.
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
  std::mutex mutex_;  // for what follows
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::thread thread_;  // last
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_EXIT_DEADLINE_H_
