#include "kv/layer_room.h"

#include <gtest/gtest.h>

#include <set>

#include "base/ids.h"

namespace winnow {
namespace {

// Llama-3.1-8B at 128K: a strip of 128 KiB, rows of 16 KiB.
TEST(LayerRoomTest, FiveStripsAPageInPlaceOfThirtyTwo) {
  const LayerRoom room = LayerRoomOf(
      {.num_layers = 32, .strip_bytes = 128 << 10, .row_bytes = 4096 * 4},
      {.num_tokens = 128 << 10,
       .num_far_pages = 4096,
       .num_life_pages = 4096 + 8,
       .num_slot_extents = 256});
  EXPECT_EQ(room.num_whole_pages, 0);
  EXPECT_EQ(room.num_strip_extents, 5 * 4096 / 32);
  EXPECT_EQ(room.num_lent(), 640);
  EXPECT_EQ(room.num_decoding(), 256 + 8);
  EXPECT_EQ(room.num_most(), 640);
}

TEST(LayerRoomTest, WhatIsLentHasRoomForSlots) {
  const LayerRoom room =
      LayerRoomOf({.num_layers = 4, .strip_bytes = 1024, .row_bytes = 8},
                  {.num_tokens = 3 * kPageTokens + 1,
                   .num_far_pages = 2,
                   .num_life_pages = 9,
                   .num_slot_extents = 2});
  EXPECT_EQ(room.num_whole_pages, 2);
  EXPECT_EQ(room.num_strip_extents, 1);  // 2 and 1 strips
  EXPECT_EQ(room.num_lent(), 4);
  EXPECT_EQ(room.num_decoding(), 2 + 2 + 5);
  EXPECT_EQ(room.num_most(), 9);
}

TEST(LayerRoomTest, AStripAPlace) {
  std::set<std::pair<int64_t, int>> places;
  for (int64_t strip = 0; strip < 15; ++strip) {
    const StripPlace place = PlaceOfStrip(strip, 3);
    EXPECT_LT(place.extent, 3);
    EXPECT_LT(place.layer, 5);
    places.emplace(place.extent, place.layer);
  }
  EXPECT_EQ(places.size(), 15u);
}

}  // namespace
}  // namespace winnow
