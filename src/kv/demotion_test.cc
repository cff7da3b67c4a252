#include "kv/demotion.h"

#include <gtest/gtest.h>

#include <array>

namespace winnow {
namespace {

constexpr SequenceId kA(1), kB(2), kC(3), kD(4);
using Sequences = std::vector<SequenceId>;

// They gain 3, 7, 7 and nothing.
constexpr std::array<DemotionOffer, 4> kOffers = {
    {{kA, 4, 1}, {kB, 9, 2}, {kC, 8, 1}, {kD, 2, 2}}};

TEST(DemotionTest, WhoGainsMostIsFirstAndOfEqualsTheLast) {
  EXPECT_EQ(ChooseDemotions(kOffers, 1, 100), Sequences{kC});
  EXPECT_EQ(ChooseDemotions(kOffers, 7, 100), Sequences{kC});
  EXPECT_EQ(ChooseDemotions(kOffers, 8, 100), (Sequences{kC, kB}));
  EXPECT_EQ(ChooseDemotions(kOffers, 17, 100), (Sequences{kC, kB, kA}));
}

TEST(DemotionTest, NobodyDoesWhatDoesNotSuffice) {
  EXPECT_EQ(ChooseDemotions(kOffers, 18, 100), Sequences());
  EXPECT_EQ(ChooseDemotions({}, 1, 100), Sequences());
  EXPECT_EQ(ChooseDemotions(std::span(kOffers).last(1), 1, 100), Sequences());
  EXPECT_EQ(ChooseDemotions(kOffers, 0, 100), Sequences());
}

// A host that lacks room for one may have it for another.
TEST(DemotionTest, TheHostHasRoomForAllThatLeaves) {
  EXPECT_EQ(ChooseDemotions(kOffers, 1, 7), Sequences{kA});
  EXPECT_EQ(ChooseDemotions(kOffers, 8, 12), (Sequences{kC, kA}));
  EXPECT_EQ(ChooseDemotions(kOffers, 8, 11), Sequences());
  EXPECT_EQ(ChooseDemotions(kOffers, 1, 0), Sequences());
}

}  // namespace
}  // namespace winnow
