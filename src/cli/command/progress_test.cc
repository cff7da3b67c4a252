#include "cli/command/progress.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(ProgressTest, FormatsForPeople) {
  EXPECT_EQ(FormatSeconds(0.42), "0.4 s");
  EXPECT_EQ(FormatSeconds(12.3), "12 s");
  EXPECT_EQ(FormatSeconds(200), "3 min 20 s");
  EXPECT_EQ(FormatCount(7), "7");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(100), "100");
}

}  // namespace
}  // namespace winnow
