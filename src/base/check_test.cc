#include "base/check.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(CheckTest, PassesSilently) { CHECK(1 + 1 == 2, "never {}", "printed"); }

TEST(CheckDeathTest, PrintsPlaceConditionAndValues) {
  const int n = 3;
  EXPECT_DEATH(CHECK(n < 2, "n={}", n),
               "check_test.cc:[0-9]+: CHECK failed: n < 2: n=3");
  EXPECT_DEATH(CHECK(n < 2), "CHECK failed: n < 2\n");
}

}  // namespace
}  // namespace winnow
