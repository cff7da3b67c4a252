#include "kv/demotion.h"

#include <gtest/gtest.h>

#include <array>

#include "kv/testing/kv_cache_case.h"

namespace winnow {
namespace {

using Sequences = std::vector<SequenceId>;

// They gain 3, 7, 7 and nothing.
constexpr std::array<DemotionOffer, 4> kDemotionOffers = {
    {{kA, 4, 1}, {kB, 9, 2}, {kC, 8, 1}, {kD, 2, 2}}};

TEST(DemotionTest, WhoGainsMostIsFirstAndOfEqualsTheLast) {
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 1, 100), Sequences{kC});
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 7, 100), Sequences{kC});
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 8, 100), (Sequences{kC, kB}));
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 17, 100), (Sequences{kC, kB, kA}));
}

TEST(DemotionTest, NobodyDoesWhatDoesNotSuffice) {
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 18, 100), Sequences());
  EXPECT_EQ(ChooseDemotions({}, 1, 100), Sequences());
  EXPECT_EQ(ChooseDemotions(std::span(kDemotionOffers).last(1), 1, 100),
            Sequences());
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 0, 100), Sequences());
}

// A host that lacks room for one may have it for another.
TEST(DemotionTest, TheHostHasRoomForAllThatLeaves) {
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 1, 7), Sequences{kA});
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 8, 12), (Sequences{kC, kA}));
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 8, 11), Sequences());
  EXPECT_EQ(ChooseDemotions(kDemotionOffers, 1, 0), Sequences());
}

}  // namespace
}  // namespace winnow
