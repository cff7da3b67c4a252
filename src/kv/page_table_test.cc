#include "kv/page_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace winnow {
namespace {

std::vector<ExtentId> Extents(std::initializer_list<uint32_t> ids) {
  std::vector<ExtentId> extents;
  for (uint32_t id : ids) extents.emplace_back(id);
  return extents;
}

std::vector<ExtentId> PagesOf(const PageTable& table) {
  return {table.pages().begin(), table.pages().end()};
}

TEST(PageTableTest, GrowsByPagesThatBegin) {
  PageTable table;
  table.Grow(31, Extents({7}));
  EXPECT_EQ(table.num_open_tokens(), 31);
  table.Grow(1, {});
  EXPECT_EQ(table.num_open_tokens(), 0);
  table.Grow(33, Extents({2, 9}));
  EXPECT_EQ(PagesOf(table), Extents({7, 2, 9}));
  EXPECT_EQ(table.num_tokens(), 65);
  EXPECT_EQ(table.num_sealed(), 0);
}

TEST(PageTableTest, TruncateKeepsTheOpenTailAndLowersTheSeal) {
  PageTable table;
  table.Grow(65, Extents({7, 2, 9}));
  table.Seal(64);
  table.Truncate(64);
  EXPECT_EQ(PagesOf(table), Extents({7, 2}));
  EXPECT_EQ(table.num_sealed(), 64);
  table.Truncate(33);
  EXPECT_EQ(PagesOf(table), Extents({7, 2}));
  EXPECT_EQ(table.num_sealed(), 33);
  table.Truncate(0);
  EXPECT_TRUE(table.pages().empty());
  EXPECT_EQ(table.num_sealed(), 0);
}

TEST(PageTableTest, ACopyIsIndependent) {
  PageTable parent;
  parent.Grow(40, Extents({0, 1}));
  PageTable child = parent;
  child.ReplaceLastPage(ExtentId(5));
  EXPECT_EQ(PagesOf(parent), Extents({0, 1}));
  EXPECT_EQ(PagesOf(child), Extents({0, 5}));
}

TEST(PageTableDeathTest, ABugStopsTheProgram) {
  PageTable table;
  table.Grow(40, Extents({0, 1}));
  table.Seal(33);
  EXPECT_DEATH(table.Grow(25, {}), "0 extents for 25 more tokens than 40");
  EXPECT_DEATH(table.Grow(24, Extents({2})), "1 extents for 24 more tokens");
  EXPECT_DEATH(table.Grow(-1, {}), "num_added=-1");
  EXPECT_DEATH(table.Grow(std::numeric_limits<int>::max(), {}),
               "num_tokens=40");
  EXPECT_DEATH(table.Truncate(41), "num_tokens=41 of 40");
  EXPECT_DEATH(table.Seal(32), "num_tokens=32 num_sealed=33 owned=40");
  EXPECT_DEATH(table.Seal(41), "num_tokens=41 num_sealed=33 owned=40");
  EXPECT_DEATH(PageTable().ReplaceLastPage(ExtentId(0)), "CHECK failed");
}

}  // namespace
}  // namespace winnow
