#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace winnow {
namespace {

TEST(InterruptTest, TheFirstSignalWaitsToBeAskedFor) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.Requested());
  raise(SIGINT);
  EXPECT_TRUE(interrupt.Requested());
  EXPECT_TRUE(interrupt.Requested());
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        raise(SIGINT);
        if (interrupt.Requested()) raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace winnow
