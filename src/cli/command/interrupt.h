// Interrupt: Ctrl-C (SIGINT, SIGTERM or SIGHUP) from a command's start to its
// end.
#ifndef WINNOW_CLI_COMMAND_INTERRUPT_H_
#define WINNOW_CLI_COMMAND_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace winnow {

// The exit status of an interrupted command: 128 + SIGINT, as in shells.
inline constexpr int kInterruptedStatus = 130;

// Watches for Ctrl-C on a thread of its own, because neither a tokenizer nor a
// long step polls. The first signal ends the process with kInterruptedStatus,
// because there is nothing to keep. After Hold() the first signal only sets
// Requested(), and the next one ends the process. A closing terminal may send
// SIGHUP several times, and a session's end sends it after SIGTERM, so a later
// SIGHUP ends nothing. If SIGHUP is ignored at start, as under nohup, it stays
// ignored. REQUIRES: one at a time, made before any thread starts, because
// threads inherit the blocked signals.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  // From now on the command ends cleanly. `tell`, if set, is called at the
  // first signal, on the watching thread.
  void Hold(std::function<void()> tell = {}) {
    tell_ = std::move(tell);
    held_ = true;
  }

  // True after a signal. REQUIRES: Hold() was called.
  bool Requested() const;

 private:
  void Watch();

  std::function<void()> tell_;  // set before held_
  std::atomic<bool> held_ = false;
  std::atomic<bool> requested_ = false;
  int signals_ = -1;  // signalfd; no handler, so no global state
  int ended_ = -1;    // eventfd, written by the destructor
  std::thread watcher_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_INTERRUPT_H_
