#include "cli/command/exit_deadline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

namespace winnow {
namespace {

// A destructor that never ends.
struct Endless {
  ~Endless() {
    std::mutex never;
    const std::scoped_lock lock(never);
    std::thread([&never] { const std::scoped_lock waits(never); }).join();
  }
};

TEST(ExitDeadlineTest, EndsWhatDoesNotEnd) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        ExitDeadline deadline;
        const Endless endless;
        deadline.Set(std::chrono::milliseconds(50), 7);
      },
      testing::ExitedWithCode(7), "");
}

TEST(ExitDeadlineTest, TellsTheErrorThatNobodyElseWould) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        ExitDeadline deadline;
        const Endless endless;
        deadline.Set(std::chrono::milliseconds(50), 1, "the device is gone");
      },
      testing::ExitedWithCode(1), "the device is gone");
}

TEST(ExitDeadlineTest, LeavesAloneWhatEnds) {
  for (int i = 0; i < 3; ++i) {
    ExitDeadline deadline;
    if (i > 0) deadline.Set(std::chrono::hours(1), 7, "never told");
  }
}

}  // namespace
}  // namespace winnow
