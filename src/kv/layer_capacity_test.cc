#include "kv/layer_capacity.h"

#include <gtest/gtest.h>

#include <set>

#include "base/ids.h"

namespace winnow {
namespace {

// Llama-3.1-8B at 128K: a layer block of 128 KiB, rows of 16 KiB.
TEST(LayerCapacityTest, FiveLayerBlocksAPageInPlaceOfThirtyTwo) {
  const LayerCapacity room = LayerCapacityOf(
      {.num_layers = 32, .layer_block_bytes = 128 << 10, .row_bytes = 4096 * 4},
      {.num_tokens = 128 << 10,
       .num_far_pages = 4096,
       .num_life_pages = 4096 + 8,
       .num_slot_kv_blocks = 256});
  EXPECT_EQ(room.num_whole_pages, 0);
  EXPECT_EQ(room.num_layer_block_kv_blocks, 5 * 4096 / 32);
  EXPECT_EQ(room.num_lent(), 640);
  EXPECT_EQ(room.num_decoding(), 256 + 8);
  EXPECT_EQ(room.num_most(), 640);
}

TEST(LayerCapacityTest, WhatIsLentHasRoomForSlots) {
  const LayerCapacity room = LayerCapacityOf(
      {.num_layers = 4, .layer_block_bytes = 1024, .row_bytes = 8},
      {.num_tokens = 3 * kPageTokens + 1,
       .num_far_pages = 2,
       .num_life_pages = 9,
       .num_slot_kv_blocks = 2});
  EXPECT_EQ(room.num_whole_pages, 2);
  EXPECT_EQ(room.num_layer_block_kv_blocks, 1);  // 2 and 1 layer blocks
  EXPECT_EQ(room.num_lent(), 4);
  EXPECT_EQ(room.num_decoding(), 2 + 2 + 5);
  EXPECT_EQ(room.num_most(), 9);
}

TEST(LayerCapacityTest, AStripAPlace) {
  std::set<std::pair<int64_t, int>> places;
  for (int64_t layer_block = 0; layer_block < 15; ++layer_block) {
    const LayerBlockPlace place = PlaceOfLayerBlock(layer_block, 3);
    EXPECT_LT(place.kv_block, 3);
    EXPECT_LT(place.layer, 5);
    places.emplace(place.kv_block, place.layer);
  }
  EXPECT_EQ(places.size(), 15u);
}

}  // namespace
}  // namespace winnow
