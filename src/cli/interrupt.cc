#include "cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace winnow {
namespace {

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

Interrupt::~Interrupt() {
  if (fd_ >= 0) close(fd_);
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

bool Interrupt::Requested() {
  signalfd_siginfo info;
  if (!requested_ && fd_ >= 0 && read(fd_, &info, sizeof(info)) > 0) {
    requested_ = true;
    const sigset_t signals = WatchedSignals();
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
  return requested_;
}

}  // namespace winnow
