#include "backend/contract/replacement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace winnow {
namespace {

std::vector<int32_t> Victims(const std::vector<uint8_t>& ranks,
                             int32_t num_wanted, int least_rank) {
  std::vector<int32_t> victims;
  const VictimCut cut = CutVictims(CountRanks(ranks), num_wanted, least_rank);
  ForEachVictim(ranks, cut, [&](int32_t slot) { victims.push_back(slot); });
  EXPECT_EQ(std::ssize(victims), cut.num_victims);
  return victims;
}

// What the header promises, by a sort: the greatest ranks, ties to the lowest
// slot, given out ascending.
TEST(ReplacementTest, VictimsAreTheFirstOfASort) {
  std::mt19937 random(7);
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> ranks(static_cast<size_t>(below(60)));
    const int spread = 1 + below(kNumRanks);
    for (uint8_t& rank : ranks) rank = static_cast<uint8_t>(below(spread));
    const int num_wanted = below(70);
    const int least = 1 + below(kNumRanks - 1);
    std::vector<int32_t> order;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] >= least) order.push_back(static_cast<int32_t>(i));
    }
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
      return ranks[static_cast<size_t>(a)] > ranks[static_cast<size_t>(b)];
    });
    order.resize(std::min(order.size(), static_cast<size_t>(num_wanted)));
    std::ranges::sort(order);
    ASSERT_EQ(Victims(ranks, num_wanted, least), order) << "round " << round;
  }
}

TEST(ReplacementTest, PicksGoNeverHintsLastEmptySlotsFirst) {
  const std::vector<uint8_t> ranks = {
      static_cast<uint8_t>(EvictionRank(63, SlotUse::kPicked)),
      static_cast<uint8_t>(EvictionRank(63, SlotUse::kHinted)),
      static_cast<uint8_t>(EvictionRank(0, SlotUse::kNone)),
      static_cast<uint8_t>(EvictionRank(kHintedBit | 5, SlotUse::kNone)),
      static_cast<uint8_t>(EvictionRank(kEmptyAge, SlotUse::kNone)),
      static_cast<uint8_t>(EvictionRank(5, SlotUse::kNone))};
  EXPECT_EQ(Victims(ranks, 1, 1), (std::vector<int32_t>{4}));
  EXPECT_EQ(Victims(ranks, 2, 1), (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(Victims(ranks, 3, 1), (std::vector<int32_t>{3, 4, 5}));
  EXPECT_EQ(Victims(ranks, 4, 1), (std::vector<int32_t>{2, 3, 4, 5}));
  EXPECT_EQ(Victims(ranks, 9, 1), (std::vector<int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(Victims(ranks, 9, kFirstAgeRank + 6), (std::vector<int32_t>{4}));
}

// 64 values reach 352 tokens back, whatever tokens a Fetch is for.
TEST(ReplacementTest, AgesTellUsesApart) {
  std::vector<int64_t> reached(kNumAges, -1);
  uint8_t age = 0;
  for (int64_t position = 0; position < 1000; ++position) {
    if (reached[age] < 0) reached[age] = position;
    age = AgeClock(position, position + 1).Next(age);
  }
  EXPECT_EQ(age, kNumAges - 1);
  EXPECT_EQ(reached[31], 31);
  EXPECT_EQ(reached[32], 32);
  EXPECT_EQ(reached[47], 32 + 1 + 14 * 4);
  EXPECT_GE(reached[63], 32 + 15 * 4 + 15 * 16 - 16);
  EXPECT_LE(reached[63], 352);
}

TEST(ReplacementTest, AnAgeKeepsItsHintAndEndsAtTheGreatest) {
  EXPECT_EQ(AgeClock(8, 9).Next(kHintedBit | 3), kHintedBit | 4);
  EXPECT_EQ(AgeClock(0, 1).Next(kHintedBit | 63), kHintedBit | 63);
  EXPECT_EQ(AgeClock(0, 1).Next(kEmptyAge), kEmptyAge);
  EXPECT_EQ(AgeClock(1, 4).Next(40), 40);
  EXPECT_EQ(AgeClock(1, 5).Next(40), 41);
  EXPECT_EQ(AgeClock(1, 16).Next(50), 50);
  EXPECT_EQ(AgeClock(16, 17).Next(50), 51);
  // However many tokens: a bucket a Fetch.
  EXPECT_EQ(AgeClock(0, 100).Next(50), 51);
}

}  // namespace
}  // namespace winnow
