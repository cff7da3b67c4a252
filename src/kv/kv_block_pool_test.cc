#include "kv/kv_block_pool.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(KvBlockPoolTest, TheLowestFreeIdGoesFirst) {
  constexpr int64_t kNumKvBlocks = 130;  // three words, the last not full
  KvBlockPool pool(kNumKvBlocks);
  for (uint32_t i = 0; i < kNumKvBlocks; ++i) {
    EXPECT_EQ(pool.Take(), KvBlockId(i));
  }
  EXPECT_EQ(pool.Take(), std::nullopt);
  for (uint32_t i : {129u, 64u, 3u, 65u}) pool.Release(KvBlockId(i));
  for (uint32_t i : {3u, 64u, 65u, 129u}) EXPECT_EQ(pool.Take(), KvBlockId(i));
  EXPECT_EQ(pool.Take(), std::nullopt);
  for (uint32_t i = 0; i < kNumKvBlocks; ++i) pool.Release(KvBlockId(i));
}

TEST(KvBlockPoolTest, CountsAndReferences) {
  KvBlockPool pool(64);
  EXPECT_EQ(pool.num_free(), 64);
  const KvBlockId id = *pool.Take();
  EXPECT_FALSE(pool.is_free(id));
  EXPECT_EQ(pool.num_references(id), 1u);
  EXPECT_EQ(pool.num_in_use(), 1);
  pool.Share(id);
  EXPECT_EQ(pool.num_references(id), 2u);
  pool.Release(id);
  EXPECT_EQ(pool.num_in_use(), 1);  // the other reference holds it
  pool.Release(id);
  EXPECT_TRUE(pool.is_free(id));
  EXPECT_EQ(pool.num_references(id), 0u);
  EXPECT_EQ(pool.num_free(), 64);
}

TEST(KvBlockPoolTest, AnEmptyPoolGivesNothing) {
  KvBlockPool pool(0);
  EXPECT_EQ(pool.num_kv_blocks(), 0);
  EXPECT_EQ(pool.Take(), std::nullopt);
}

TEST(KvBlockPoolDeathTest, ABugStopsTheProgram) {
  KvBlockPool pool(2);
  EXPECT_DEATH(pool.Release(KvBlockId(1)), "KV block=1 is free");
  EXPECT_DEATH(pool.Share(KvBlockId(0)), "KV block=0 is free");
  EXPECT_DEATH((void)pool.num_references(KvBlockId(2)),
               "KV block=2 num_kv_blocks=2");
  EXPECT_DEATH(KvBlockPool(-1), "num_kv_blocks=-1");
  EXPECT_DEATH(
      {
        KvBlockPool leaking(3);
        (void)leaking.Take();
      },
      "1 of 3 KV blocks are still in use");
}

}  // namespace
}  // namespace winnow
