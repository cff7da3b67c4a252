#include "engine/residency/disk_patience.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using std::chrono::milliseconds;

TEST(DiskPatienceTest, EndsWhereNothingEnds) {
  DiskPatience patience(milliseconds(10));
  const DiskPatience::Clock::time_point begin{};
  patience.Note(0, 0, begin);
  EXPECT_EQ(patience.due(), std::nullopt);
  patience.Note(2, 0, begin);
  EXPECT_EQ(patience.due(), begin + milliseconds(10));
  patience.Note(2, 0, begin + milliseconds(9));
  EXPECT_FALSE(patience.is_over());
  patience.Note(3, 0, begin + milliseconds(10));
  EXPECT_TRUE(patience.is_over());
  EXPECT_EQ(patience.due(), std::nullopt);
}

TEST(DiskPatienceTest, BeginsAgainWithEachThatEnds) {
  DiskPatience patience(milliseconds(10));
  const DiskPatience::Clock::time_point begin{};
  patience.Note(9, 0, begin);
  for (int i = 1; i < 8; ++i) {
    patience.Note(9, i, begin + milliseconds(9 * i));
    EXPECT_FALSE(patience.is_over());
  }
  patience.Note(9, 7, begin + milliseconds(73));
  EXPECT_TRUE(patience.is_over());
  // It answers after all.
  patience.Note(1, 8, begin + milliseconds(90));
  EXPECT_FALSE(patience.is_over());
  EXPECT_EQ(patience.due(), begin + milliseconds(100));
  patience.Note(0, 9, begin + milliseconds(500));
  EXPECT_FALSE(patience.is_over());
  EXPECT_EQ(patience.due(), std::nullopt);
}

}  // namespace
}  // namespace winnow
