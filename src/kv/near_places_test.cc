#include "kv/near_places.h"

#include <gtest/gtest.h>

#include <random>

namespace winnow {
namespace {

using Places = std::vector<int64_t>;

TEST(NearPlacesTest, EachPageHasItsOwn) {
  NearPlaces places;
  places.Cover(3, 6);
  EXPECT_EQ(places.num_places(), 3);
  EXPECT_EQ(places.TakeAdded(), (Places{3, 4, 5}));
  EXPECT_FALSE(places.PlaceOf(2));
  EXPECT_EQ(places.PlaceOf(4), 1);
  EXPECT_FALSE(places.PlaceOf(6));
  places.Cover(2, 8);
  EXPECT_EQ(places.TakeAdded(), (Places{2, 6, 7}));
  EXPECT_EQ(places.PlaceOf(4), 1);
  EXPECT_EQ(places.num_places(), 6);
}

TEST(NearPlacesTest, WhatIsGivenBackGoesFirst) {
  NearPlaces places;
  places.Cover(0, 5);
  places.Uncover(2);
  EXPECT_EQ(places.TakeAdded(), (Places{2, 3, 4}));
  EXPECT_EQ(places.NumPlacesWith(2), 5);
  EXPECT_EQ(places.NumPlacesWith(3), 6);
  places.Cover(5, 7);
  EXPECT_EQ(places.num_places(), 5);
  EXPECT_EQ(places.PlaceOf(5), 0);
  EXPECT_EQ(places.PlaceOf(6), 1);
  places.Uncover(9);
  EXPECT_TRUE(places.TakeAdded().empty());
  EXPECT_FALSE(places.PlaceOf(6));
}

// Never more than pages had at once, and no two alike.
TEST(NearPlacesTest, AreAsManyAsPagesHadAtOnce) {
  std::mt19937 random(7);
  const auto below = [&](int end) {
    return static_cast<int64_t>(random() % static_cast<uint32_t>(end));
  };
  for (int round = 0; round < 200; ++round) {
    NearPlaces places;
    int64_t first = below(20), end = first, most = 0;
    for (int step = 0; step < 30; ++step) {
      if (below(3) == 0) {
        first += below(static_cast<int>(end - first) + 1);
        places.Uncover(first);
      } else {
        if (below(4) == 0) first -= below(static_cast<int>(first) + 1);
        end += below(5);
        most = std::max(most, end - first);
        EXPECT_EQ(places.NumPlacesWith(0), places.num_places());
        places.Cover(first, end);
      }
      std::set<int64_t> used;
      for (int64_t page = 0; page < end + 3; ++page) {
        const std::optional<int64_t> place = places.PlaceOf(page);
        ASSERT_EQ(place.has_value(), page >= first && page < end) << page;
        if (!place) continue;
        ASSERT_LT(*place, places.num_places());
        ASSERT_TRUE(used.insert(*place).second);
      }
      ASSERT_EQ(places.num_places(), most);
    }
  }
}

}  // namespace
}  // namespace winnow
