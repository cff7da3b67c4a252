// What sequences have together of pages that one of them goes on behind.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv/testing/kv_cache_case.h"

namespace winnow {
namespace {

constexpr int kTokens = 10;  // a page

void Grow(KvCache& cache, SequenceId id, int num_tokens) {
  std::optional<Reservation> room =
      cache.Reserve(std::array<Growth, 1>{{{id, num_tokens}}});
  ASSERT_TRUE(room.has_value());
  room->Commit();
}

TEST(KvCacheShareTest, BeginsWithTheFirstPagesOfOneThatGoesOn) {
  KvCache cache(8, kTokens);
  cache.Open(kA);
  Grow(cache, kA, 35);
  cache.Seal(kA, 31);
  cache.Share(kA, kB, 20);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_sealed(kB), 20);
  EXPECT_EQ(cache.num_free_pages(), 4);
  EXPECT_EQ(cache.NumRepeated(), 2);
  // Both write behind what they share: nothing is copied.
  for (const SequenceId id : {kA, kB}) {
    std::optional<Reservation> room =
        cache.Reserve(std::array<Growth, 1>{{{id, 7}}});
    ASSERT_TRUE(room.has_value());
    EXPECT_TRUE(room->copies().empty());
    room->Commit();
  }
  cache.Share(kB, kC, 0);
  EXPECT_TRUE(cache.pages(kC).empty());
  EXPECT_EQ(cache.sequences(), (std::vector<SequenceId>{kA, kB, kC}));
  cache.Close(kA);
  ExpectSound(cache);
  EXPECT_EQ(cache.NumRepeated(), 0);
  EXPECT_EQ(cache.num_free_pages(), 5);
  cache.Close(kB);
  cache.Close(kC);
}

// A page that is copied when somebody writes counts for each of them.
TEST(KvCacheShareTest, AnOpenPageIsNotRepeated) {
  KvCache cache(8, kTokens);
  cache.Open(kA);
  Grow(cache, kA, 25);
  cache.Seal(kA, 25);
  cache.Fork(kA, kB);
  EXPECT_EQ(cache.NumRepeated(), 2);
  Grow(cache, kB, 1);
  EXPECT_EQ(cache.NumRepeated(), 2);
  cache.Close(kA);
  cache.Close(kB);
}

// Whoever shares, forks, grows and ends: beside those that are repeated, full
// pages are those in use.
TEST(KvCacheShareTest, WhatIsRepeatedIsWhatThereIsNotOnce) {
  std::mt19937 random(6);
  const auto below = [&random](int64_t count) {
    return static_cast<int>(random() % static_cast<uint64_t>(count));
  };
  KvCache cache(40, kTokens);
  uint64_t next = 1;
  for (int step = 0; step < 3000; ++step) {
    const std::vector<SequenceId> open = cache.sequences();
    const SequenceId one =
        open.empty() ? kA : open[static_cast<size_t>(below(std::ssize(open)))];
    const SequenceId fresh(next);
    if (open.empty() || (open.size() < 6 && below(4) == 0)) {
      ++next;
      if (open.empty() || below(3) == 0) {
        cache.Open(fresh);
      } else if (below(2) == 0) {
        cache.Fork(one, fresh);
      } else {
        const int num_full = cache.num_tokens(one) / kTokens;
        cache.Share(one, fresh, below(num_full + 1) * kTokens);
      }
    } else if (below(4) == 0) {
      cache.Close(one);
    } else if (const std::array<Growth, 1> growth = {{{one, below(30)}}};
               cache.CanGrow(growth)) {
      cache.Reserve(growth)->Commit();
      cache.Seal(one, cache.num_tokens(one));
    }
    ExpectSound(cache);
    std::map<KvBlockId, int64_t> holders;
    for (const SequenceId id : cache.sequences()) {
      const auto num_full = static_cast<size_t>(cache.num_tokens(id) / kTokens);
      for (const KvBlockId page : cache.pages(id).first(num_full)) {
        ++holders[page];
      }
    }
    int64_t num_repeated = 0;
    for (const auto& [page, count] : holders) num_repeated += count - 1;
    ASSERT_EQ(cache.NumRepeated(), num_repeated) << "seed 6 step " << step;
  }
  for (const SequenceId id : cache.sequences()) cache.Close(id);
}

TEST(KvCacheShareDeathTest, OnlyWhatExistsIsShared) {
  KvCache cache(8, kTokens);
  cache.Open(kA);
  Grow(cache, kA, 35);
  cache.Seal(kA, 29);
  EXPECT_DEATH(cache.Share(kA, kB, 30), "num_tokens=30 num_sealed=29");
  EXPECT_DEATH(cache.Share(kA, kB, 15), "num_tokens=15");
  cache.Close(kA);
}

}  // namespace
}  // namespace winnow
