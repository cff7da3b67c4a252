#include "backend/cpu/select/select_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace winnow {
namespace {

// When the last worker ends, if each takes the next unit as it is free.
int64_t EndOf(const std::vector<int64_t>& units, int num_workers) {
  std::vector<int64_t> free_at(static_cast<size_t>(num_workers));
  for (const int64_t cost : units) *std::ranges::min_element(free_at) += cost;
  return std::ranges::max(free_at);
}

// Whatever is accepted ends as said, in any order.
TEST(SelectUnitsTest, WorkersEndTogether) {
  std::mt19937 random(1);
  int num_accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto num_kv_heads = static_cast<int>(1 + random() % 12);
    const auto num_workers = static_cast<int>(1 + random() % 12);
    const bool alike = random() % 2 == 0;
    std::vector<KvHeadWork> works(1 + random() % 40);
    for (KvHeadWork& work : works) {
      work = {static_cast<int64_t>(alike ? 500 : random() % 1000),
              static_cast<int64_t>(random() % (2 * kUnitScores))};
    }
    const int heads = KvHeadsOfUnit(works, num_kv_heads, 8, num_workers);
    if (heads == 0) continue;
    ++num_accepted;
    ASSERT_LE(heads, std::min(num_kv_heads, 8));
    std::vector<int64_t> units;
    int64_t total = 0;
    for (const KvHeadWork& work : works) {
      ASSERT_TRUE(heads == 1 || heads * work.num_scores <= kUnitScores);
      total += work.cost * num_kv_heads;
      for (int head = 0; head < num_kv_heads; head += heads) {
        units.push_back(work.cost * std::min(heads, num_kv_heads - head));
      }
    }
    std::ranges::shuffle(units, random);
    ASSERT_LE(16 * num_workers * EndOf(units, num_workers), 17 * total)
        << "round " << round;
  }
  EXPECT_GT(num_accepted, 1000);
}

TEST(SelectUnitsTest, TakesAsManyHeadsAsMayBe) {
  constexpr KvHeadWork kFew[] = {{100, 1000}};
  EXPECT_EQ(KvHeadsOfUnit(kFew, 8, 8, 1), 8);
  EXPECT_EQ(KvHeadsOfUnit(kFew, 8, 8, 2), 4);
  EXPECT_EQ(KvHeadsOfUnit(kFew, 8, 8, 8), 1);
  EXPECT_EQ(KvHeadsOfUnit(kFew, 10, 8, 2), 5);
  // Three workers would wait for two; sixteen have too few.
  EXPECT_EQ(KvHeadsOfUnit(kFew, 8, 8, 3), 0);
  EXPECT_EQ(KvHeadsOfUnit(kFew, 8, 8, 16), 0);
  constexpr KvHeadWork kMany[] = {{100, kUnitScores / 2}};
  EXPECT_EQ(KvHeadsOfUnit(kMany, 8, 8, 2), 2);
  // More than a unit should have, in one KV head.
  constexpr KvHeadWork kLong[] = {{100, 4 * kUnitScores}};
  EXPECT_EQ(KvHeadsOfUnit(kLong, 8, 8, 2), 1);
  EXPECT_EQ(KvHeadsOfUnit({}, 8, 8, 2), 0);
}

}  // namespace
}  // namespace winnow
