#include "kv/extent_pool.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(ExtentPoolTest, TheLowestFreeIdGoesFirst) {
  constexpr int64_t kNumExtents = 130;  // three words, the last not full
  ExtentPool pool(kNumExtents);
  for (uint32_t i = 0; i < kNumExtents; ++i) {
    EXPECT_EQ(pool.Take(), ExtentId(i));
  }
  EXPECT_EQ(pool.Take(), std::nullopt);
  for (uint32_t i : {129u, 64u, 3u, 65u}) pool.Release(ExtentId(i));
  for (uint32_t i : {3u, 64u, 65u, 129u}) EXPECT_EQ(pool.Take(), ExtentId(i));
  EXPECT_EQ(pool.Take(), std::nullopt);
  for (uint32_t i = 0; i < kNumExtents; ++i) pool.Release(ExtentId(i));
}

TEST(ExtentPoolTest, CountsAndReferences) {
  ExtentPool pool(64);
  EXPECT_EQ(pool.num_free(), 64);
  const ExtentId id = *pool.Take();
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

TEST(ExtentPoolTest, AnEmptyPoolGivesNothing) {
  ExtentPool pool(0);
  EXPECT_EQ(pool.num_extents(), 0);
  EXPECT_EQ(pool.Take(), std::nullopt);
}

TEST(ExtentPoolDeathTest, ABugStopsTheProgram) {
  ExtentPool pool(2);
  EXPECT_DEATH(pool.Release(ExtentId(1)), "extent=1 is free");
  EXPECT_DEATH(pool.Share(ExtentId(0)), "extent=0 is free");
  EXPECT_DEATH((void)pool.num_references(ExtentId(2)),
               "extent=2 num_extents=2");
  EXPECT_DEATH(ExtentPool(-1), "num_extents=-1");
  EXPECT_DEATH(
      {
        ExtentPool leaking(3);
        (void)leaking.Take();
      },
      "1 of 3 extents are still in use");
}

}  // namespace
}  // namespace winnow
