// Ctrl-C (SIGINT, or SIGTERM, or SIGHUP), from start to end of a command.
#ifndef WINNOW_CLI_COMMAND_INTERRUPT_H_
#define WINNOW_CLI_COMMAND_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace winnow {

// What a command returns that was interrupted: 128 + SIGINT, as shells have it.
inline constexpr int kInterruptedStatus = 130;

// Watches for Ctrl-C while it lives, on a thread of its own: neither a
// tokenizer nor a long step asks. The first one ends the process with
// kInterruptedStatus, as there is nothing yet to keep; after Hold() it waits to
// be asked for, and the next one ends the process. A terminal that closes may
// send SIGHUP several times, and a session's end sends it behind SIGTERM: one
// that comes later ends nothing. Where SIGHUP is ignored at start, as under
// nohup, it stays ignored. One at a time; make it before any thread is started:
// threads inherit what it blocks.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  // From now on there is something to end cleanly. `tell`, if any, is called
  // with the first signal, on the watching thread.
  void Hold(std::function<void()> tell = {}) {
    tell_ = std::move(tell);
    held_ = true;
  }

  // True once the signal has come. REQUIRES: Hold() was called.
  bool Requested() const;

 private:
  void Watch();

  std::function<void()> tell_;  // before held_ is set
  std::atomic<bool> held_ = false;
  std::atomic<bool> requested_ = false;
  int signals_ = -1;  // signalfd; no handler, so no global state
  int ended_ = -1;    // eventfd, written to at the end of this
  std::thread watcher_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_INTERRUPT_H_
