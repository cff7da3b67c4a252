#include "kv/write_behind.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Ids = std::vector<uint32_t>;

// Pages in KV blocks 0, 1, ... of the device, as they leave; of each whether it
// lies on the host.
std::vector<PagePlaces> Leaving(const std::vector<bool>& on_host) {
  std::vector<PagePlaces> pages;
  for (uint32_t i = 0; i < on_host.size(); ++i) {
    PagePlaces& page = pages.emplace_back();
    page.device = KvBlockId(i);
    if (on_host[i]) page.host = KvBlockId(100 + i);
  }
  return pages;
}

Ids Choose(const WriteBehindLimits& limits, int64_t num_free,
           int64_t num_free_host, const std::vector<bool>& on_host) {
  const std::vector<PagePlaces> leaving = Leaving(on_host);
  Ids ids;
  for (const KvBlockId kv_block :
       ChooseWrites(limits, {.num_free = num_free,
                             .num_free_host = num_free_host,
                             .leaving = leaving})) {
    ids.push_back(kv_block.value());
  }
  return ids;
}

TEST(WriteBehindTest, NothingAboveTheWatermark) {
  EXPECT_EQ(Choose({.watermark = 4, .max_pages = 9}, 4, 9, {false, false}),
            Ids{});
  EXPECT_EQ(Choose({.watermark = 4, .max_pages = 9}, 7, 9, {false, false}),
            Ids{});
  EXPECT_EQ(NumToBeThere({.watermark = 4}, 7), 0);
}

TEST(WriteBehindTest, AsManyAsAreMissingThereInTheOrderOfLeaving) {
  EXPECT_EQ(Choose({.watermark = 4, .max_pages = 9}, 1, 9,
                   {false, false, false, false}),
            (Ids{0, 1, 2}));
  // Those that are there already count.
  EXPECT_EQ(Choose({.watermark = 4, .max_pages = 9}, 1, 9,
                   {false, true, false, false}),
            (Ids{0, 2}));
  EXPECT_EQ(Choose({.watermark = 4, .max_pages = 9}, 1, 9, {true, true, true}),
            Ids{});
  EXPECT_EQ(Choose({.watermark = 9, .max_pages = 9}, 0, 9, {false}), Ids{0});
}

TEST(WriteBehindTest, AFewAtATime) {
  EXPECT_EQ(Choose({.watermark = 9, .max_pages = 2}, 0, 9,
                   {true, false, false, false}),
            (Ids{1, 2}));
}

TEST(WriteBehindTest, OnlyWhereTheHostHasRoom) {
  EXPECT_EQ(Choose({.watermark = 9, .max_pages = 9}, 0, 1, {false, false}),
            Ids{0});
  EXPECT_EQ(Choose({.watermark = 9, .max_pages = 9}, 0, 0, {false, false}),
            Ids{});
}

}  // namespace
}  // namespace winnow
