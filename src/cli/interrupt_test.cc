#include "cli/interrupt.h"

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
  for (const int signal : {SIGINT, SIGTERM}) {
    Interrupt interrupt;
    interrupt.Hold();
    EXPECT_FALSE(interrupt.Requested());
    kill(getpid(), signal);
    EXPECT_TRUE(IsRequestedSoon(interrupt));
    EXPECT_TRUE(interrupt.Requested());
  }
}

// Whatever the thread is busy with: nothing here ever asks.
TEST(InterruptDeathTest, TheFirstSignalEndsTheProcessUnlessHeld) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        kill(getpid(), SIGINT);
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
