#include "cli/command/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

namespace winnow {
namespace {

// The watcher needs a moment; a minute would mean that it is not there.
bool IsRequestedSoon(const Interrupt& interrupt) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!interrupt.Requested() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return interrupt.Requested();
}

TEST(InterruptTest, AHeldSignalWaitsToBeAskedFor) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Interrupt interrupt;
    interrupt.Hold();
    EXPECT_FALSE(interrupt.Requested());
    kill(getpid(), signal);
    EXPECT_TRUE(IsRequestedSoon(interrupt));
    EXPECT_TRUE(interrupt.Requested());
  }
}

// A terminal that closes sends more than one; the end of a session sends one
// behind SIGTERM.
TEST(InterruptTest, ALaterHangUpEndsNothing) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    Interrupt interrupt;
    interrupt.Hold();
    kill(getpid(), signal);
    ASSERT_TRUE(IsRequestedSoon(interrupt));
    for (int i = 0; i < 3; ++i) {
      kill(getpid(), SIGHUP);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

// As nohup has it.
TEST(InterruptTest, AHangUpThatWasIgnoredAtStartStaysIgnored) {
  const auto before = signal(SIGHUP, SIG_IGN);
  {
    Interrupt interrupt;
    interrupt.Hold();
    kill(getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(interrupt.Requested());
    kill(getpid(), SIGTERM);
    EXPECT_TRUE(IsRequestedSoon(interrupt));
  }
  signal(SIGHUP, before);
}

// Whatever the thread is busy with: nothing here ever asks.
TEST(InterruptDeathTest, TheFirstSignalEndsTheProcessUnlessHeld) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          Interrupt interrupt;
          kill(getpid(), signal);
          pause();
        },
        testing::ExitedWithCode(kInterruptedStatus), "winnow: interrupted");
  }
}

TEST(InterruptDeathTest, AnotherSignalBehindAHangUpEndsTheProcess) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        interrupt.Hold();
        kill(getpid(), SIGHUP);
        if (IsRequestedSoon(interrupt)) kill(getpid(), SIGTERM);
        pause();
      },
      testing::ExitedWithCode(kInterruptedStatus), "winnow: interrupted");
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        interrupt.Hold();
        kill(getpid(), SIGINT);
        if (IsRequestedSoon(interrupt)) kill(getpid(), SIGINT);
        pause();
      },
      testing::ExitedWithCode(kInterruptedStatus), "winnow: interrupted");
}

}  // namespace
}  // namespace winnow
