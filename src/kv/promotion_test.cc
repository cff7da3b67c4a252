#include "kv/promotion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "kv/testing/kv_cache_case.h"

namespace winnow {
namespace {

using Promotions = std::vector<Promotion>;

// They cost 4, 7, 3 and 1, and save 10, 50, 50 and nothing.
constexpr std::array<PromotionOffer, 4> kPromotionOffers = {
    {{kA, 6, 2, 60, 70},
     {kB, 8, 1, 80, 130},
     {kC, 5, 2, 50, 100},
     {kD, 2, 1, 20, 20}}};

TEST(PromotionTest, WhoSavesMostIsFirstAndOfEqualsTheFirst) {
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = 100, .max_pages = 100}),
      (Promotions{{kB, 8}, {kC, 5}, {kA, 6}}));
  EXPECT_EQ(ChoosePromotions({}, {.num_spare = 100, .max_pages = 100}),
            Promotions());
}

TEST(PromotionTest, NobodyWhoseLastPageWouldNotFit) {
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = 13, .max_pages = 100}),
      (Promotions{{kB, 8}, {kC, 5}}));
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = 6, .max_pages = 100}),
      (Promotions{{kC, 5}}));
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = 2, .max_pages = 100}),
      Promotions());
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = -1, .max_pages = 100}),
      Promotions());
}

// A slot's KV block goes with the last page alone.
TEST(PromotionTest, AStepCopiesSoManyAtMost) {
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = 100, .max_pages = 3}),
      (Promotions{{kB, 3}}));
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = 100, .max_pages = 12}),
      (Promotions{{kB, 8}, {kC, 3}, {kA, 2}}));
  EXPECT_EQ(
      ChoosePromotions(kPromotionOffers, {.num_spare = 100, .max_pages = 0}),
      Promotions());
  const PromotionOffer as_many_slots = {kA, 3, 3, 30, 70};
  EXPECT_EQ(ChoosePromotions(std::span(&as_many_slots, 1),
                             {.num_spare = 0, .max_pages = 1}),
            (Promotions{{kA, 3}}));
  EXPECT_EQ(PagesToPromote(as_many_slots, 2), 0);
  EXPECT_EQ(PagesToPromote(kPromotionOffers[0], 5), 4);
}

// Step by step all that pays and fits is whole in the end, and at no time does
// a sequence hold more than then.
TEST(PromotionTest, AllIsWholeAfterSomeSteps) {
  std::mt19937 random(7);
  const auto below = [&](int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<PromotionOffer> offers;
    int64_t sum = 0;
    for (int64_t i = 1 + below(5); i > 0; --i) {
      const int64_t num_pages = 1 + below(40);
      offers.push_back({SequenceId(static_cast<uint64_t>(i)), num_pages,
                        below(num_pages + 1), 1,
                        static_cast<double>(below(3))});
      if (offers.back().saved_bytes() > 0) sum += offers.back().cost();
    }
    PromotionLimits limits = {.num_spare = sum, .max_pages = 1 + below(9)};
    for (int step = 0; step < 200; ++step) {
      int64_t num_left = limits.max_pages;
      for (const Promotion& chosen : ChoosePromotions(offers, limits)) {
        const auto offer = std::ranges::find(offers, chosen.sequence,
                                             &PromotionOffer::sequence);
        ASSERT_GT(num_left, 0);
        ASSERT_GT(chosen.num_pages, 0);
        ASSERT_LE(chosen.num_pages,
                  std::max(num_left, offer->num_slot_kv_blocks));
        num_left -= chosen.num_pages;
        offer->num_pages -= chosen.num_pages;
        limits.num_spare -= chosen.num_pages;
        if (offer->num_pages == 0) {
          limits.num_spare += offer->num_slot_kv_blocks;
          offers.erase(offer);
        } else {
          ASSERT_GE(offer->cost(), 0);
        }
        ASSERT_GE(limits.num_spare, 0);
      }
    }
    for (const PromotionOffer& left : offers) {
      EXPECT_LE(left.saved_bytes(), 0) << "round " << round;
    }
    EXPECT_EQ(limits.num_spare, 0);
  }
}

}  // namespace
}  // namespace winnow
