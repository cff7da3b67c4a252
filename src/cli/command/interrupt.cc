#include "cli/command/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <system_error>

#include "base/check.h"

namespace winnow {
namespace {

// A blocked signal is kept for who reads it even where it is ignored: what is
// to stay ignored must not be among these.
bool IsIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 &&
         (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);
  return signals;
}

// Without destructors: what other threads use must stay. A line of progress is
// wiped.
[[noreturn]] void EndProcess() {
  constexpr std::string_view kWipe = "\r\033[K";
  constexpr std::string_view kLine = "winnow: interrupted\n";
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const ssize_t wiped =
      terminal ? write(STDERR_FILENO, kWipe.data(), kWipe.size()) : 0;
  const ssize_t told = write(STDERR_FILENO, kLine.data(), kLine.size());
  (void)wiped, (void)told;  // Nobody is left to be told.
  _exit(kInterruptedStatus);
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC);
  ended_ = eventfd(0, EFD_CLOEXEC);
  try {
    if (signals_ >= 0 && ended_ >= 0)
      watcher_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    // No thread: the signal ends the process as it would any other.
  }
  if (!watcher_.joinable()) pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

Interrupt::~Interrupt() {
  if (watcher_.joinable()) {
    eventfd_write(ended_, 1);
    watcher_.join();
    const sigset_t signals = WatchedSignals();
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
  if (signals_ >= 0) close(signals_);
  if (ended_ >= 0) close(ended_);
}

void Interrupt::Watch() {
  pollfd files[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                    {.fd = ended_, .events = POLLIN, .revents = 0}};
  while (true) {
    if (poll(files, std::size(files), /*timeout=*/-1) < 0) continue;
    if (files[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) < 0) continue;
    if (requested_ && info.ssi_signo == SIGHUP) continue;
    if (!held_ || requested_) EndProcess();
    requested_ = true;
    if (tell_) tell_();
  }
}

bool Interrupt::Requested() const {
  CHECK(held_);
  return requested_;
}

}  // namespace winnow
