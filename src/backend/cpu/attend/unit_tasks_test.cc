#include "backend/cpu/attend/unit_tasks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backend/cpu/select/packed_keys.h"

namespace winnow {
namespace {

std::vector<Pick> ListOf(int count, uint32_t tokens) {
  std::vector<Pick> list;
  for (int i = 0; i < count; ++i) {
    list.push_back({static_cast<uint32_t>(i), tokens});
  }
  return list;
}

TEST(UnitPicksTest, AreMoreOfScatteredPicks) {
  for (int count = 3; count <= 40; ++count) {
    EXPECT_EQ(UnitPicks(ListOf(count, 0x10)), PackedKeys::kMaxPicks) << count;
    EXPECT_EQ(UnitPicks(ListOf(count, ~0u)), kUnitPicks) << count;
  }
  EXPECT_EQ(UnitPicks({}), kUnitPicks);
  EXPECT_EQ(UnitPicks(ListOf(1, 0x10)), kUnitPicks);
  EXPECT_EQ(UnitPicks(ListOf(2, 0x10)), kUnitPicks);
}

TEST(UnitPicksTest, FollowTheMiddleOfTheList) {
  std::vector<Pick> list = ListOf(40, ~0u);
  for (size_t i = 20; i < 24; ++i) list[i].tokens = 0x10;
  EXPECT_EQ(UnitPicks(list), PackedKeys::kMaxPicks);
  list = ListOf(40, 0x10);
  for (size_t i = 20; i < 24; ++i) list[i].tokens = ~0u;
  EXPECT_EQ(UnitPicks(list), kUnitPicks);
}

}  // namespace
}  // namespace winnow
