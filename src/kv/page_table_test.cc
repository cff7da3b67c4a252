#include "kv/page_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace winnow {
namespace {

std::vector<KvBlockId> KvBlocks(std::initializer_list<uint32_t> ids) {
  std::vector<KvBlockId> kv_blocks;
  for (uint32_t id : ids) kv_blocks.emplace_back(id);
  return kv_blocks;
}

std::vector<KvBlockId> PagesOf(const PageTable& table) {
  return {table.pages().begin(), table.pages().end()};
}

TEST(PageTableTest, GrowsByPagesThatBegin) {
  PageTable table;
  table.Grow(31, KvBlocks({7}));
  EXPECT_EQ(table.num_open_tokens(), 31);
  table.Grow(1, {});
  EXPECT_EQ(table.num_open_tokens(), 0);
  table.Grow(33, KvBlocks({2, 9}));
  EXPECT_EQ(PagesOf(table), KvBlocks({7, 2, 9}));
  EXPECT_EQ(table.num_tokens(), 65);
  EXPECT_EQ(table.num_sealed(), 0);
}

TEST(PageTableTest, TruncateKeepsTheOpenTailAndLowersTheSeal) {
  PageTable table;
  table.Grow(65, KvBlocks({7, 2, 9}));
  table.Seal(64);
  table.Truncate(64);
  EXPECT_EQ(PagesOf(table), KvBlocks({7, 2}));
  EXPECT_EQ(table.num_sealed(), 64);
  table.Truncate(33);
  EXPECT_EQ(PagesOf(table), KvBlocks({7, 2}));
  EXPECT_EQ(table.num_sealed(), 33);
  table.Truncate(0);
  EXPECT_TRUE(table.pages().empty());
  EXPECT_EQ(table.num_sealed(), 0);
}

TEST(PageTableTest, ACopyIsIndependent) {
  PageTable parent;
  parent.Grow(40, KvBlocks({0, 1}));
  PageTable child = parent;
  child.ReplaceLastPage(KvBlockId(5));
  EXPECT_EQ(PagesOf(parent), KvBlocks({0, 1}));
  EXPECT_EQ(PagesOf(child), KvBlocks({0, 5}));
}

TEST(PageTableDeathTest, ABugStopsTheProgram) {
  PageTable table;
  table.Grow(40, KvBlocks({0, 1}));
  table.Seal(33);
  EXPECT_DEATH(table.Grow(25, {}), "0 KV blocks for 25 more tokens than 40");
  EXPECT_DEATH(table.Grow(24, KvBlocks({2})), "1 KV blocks for 24 more tokens");
  EXPECT_DEATH(table.Grow(-1, {}), "num_added=-1");
  EXPECT_DEATH(table.Grow(std::numeric_limits<int>::max(), {}),
               "num_tokens=40");
  EXPECT_DEATH(table.Truncate(41), "num_tokens=41 of 40");
  EXPECT_DEATH(table.Seal(32), "num_tokens=32 num_sealed=33 owned=40");
  EXPECT_DEATH(table.Seal(41), "num_tokens=41 num_sealed=33 owned=40");
  EXPECT_DEATH(PageTable().ReplaceLastPage(KvBlockId(0)), "CHECK failed");
}

}  // namespace
}  // namespace winnow
