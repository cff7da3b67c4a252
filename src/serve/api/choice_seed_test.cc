#include "serve/api/choice_seed.h"

#include <gtest/gtest.h>

#include <set>

namespace winnow {
namespace {

// The reference implementation's numbers (Sebastiano Vigna's splitmix64.c) of
// seed 1234567.
TEST(ChoiceSeedTest, MixesAsSplitMix64) {
  const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                               9817491932198370423u, 4593380528125082431u,
                               16408922859458223821u};
  for (uint64_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(MixSeed(1234567, i), expected[i]);
  }
}

TEST(ChoiceSeedTest, TheFirstChoiceHasTheRequestsOwn) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) {
    EXPECT_EQ(ChoiceSeed(seed, 0), seed);
  }
}

// Seeds that a client counts up, from both ends of the range.
TEST(ChoiceSeedTest, NearSeedsShareNoChoice) {
  constexpr uint64_t kNumSeeds = 500, kNumChoices = 128;
  std::set<uint64_t> all;
  for (uint64_t i = 0; i < kNumSeeds; ++i) {
    for (uint64_t choice = 0; choice < kNumChoices; ++choice) {
      all.insert(ChoiceSeed(i, choice));
      all.insert(ChoiceSeed(UINT64_MAX - i, choice));
    }
  }
  EXPECT_EQ(all.size(), 2 * kNumSeeds * kNumChoices);
}

}  // namespace
}  // namespace winnow
