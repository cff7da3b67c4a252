#include "kv/growth.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(GrowthTest, NewPagesCountsPagesThatBegin) {
  EXPECT_EQ(NewPages(0, 0), 0);
  EXPECT_EQ(NewPages(0, 1), 1);
  EXPECT_EQ(NewPages(0, 32), 1);
  EXPECT_EQ(NewPages(0, 33), 2);
  EXPECT_EQ(NewPages(31, 1), 0);  // fills the open page
  EXPECT_EQ(NewPages(32, 0), 0);
  EXPECT_EQ(NewPages(32, 1), 1);  // no page is open
  EXPECT_EQ(NewPages(33, 31), 0);
  EXPECT_EQ(NewPages(33, 32), 1);
  EXPECT_EQ(NewPages(int64_t{1} << 40, 64), 2);
}

TEST(GrowthTest, DeficitIsWhatIsMissing) {
  EXPECT_TRUE((PageNeed{.num_needed = 4, .num_free = 4}.fits()));
  EXPECT_EQ((PageNeed{.num_needed = 4, .num_free = 4}.deficit()), 0);
  EXPECT_EQ((PageNeed{.num_needed = 4, .num_free = 9}.deficit()), 0);
  EXPECT_FALSE((PageNeed{.num_needed = 9, .num_free = 4}.fits()));
  EXPECT_EQ((PageNeed{.num_needed = 9, .num_free = 4}.deficit()), 5);
}

}  // namespace
}  // namespace winnow
