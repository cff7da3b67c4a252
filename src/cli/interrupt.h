// Ctrl-C as something to ask about between steps.
#ifndef WINNOW_CLI_INTERRUPT_H_
#define WINNOW_CLI_INTERRUPT_H_

namespace winnow {

// While it lives, the first Ctrl-C (SIGINT, or SIGTERM) is not fatal but waits
// to be asked for; the second ends the process as usual. Make it before any
// thread is started: threads inherit what it blocks.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  // True once the signal has come.
  bool Requested();

 private:
  int fd_ = -1;  // signalfd; no handler, so no global state
  bool requested_ = false;
};

}  // namespace winnow

#endif  // WINNOW_CLI_INTERRUPT_H_
