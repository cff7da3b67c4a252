// Pages of a KvCache that leave the device for the host, and come back.
#include <gtest/gtest.h>

#include "kv/testing/kv_cache_case.h"
#include "kv/tiered_texts.h"

namespace winnow {
namespace {

constexpr std::array<PageKind, 2> kKindsOfParked = {7, 0};
using Copies = TierCopies;

class KvCacheTiersTest : public TieredTexts {
 protected:
  void Open(SequenceId sequence, const std::vector<int32_t>& words) {
    cache_->Open(sequence, Find(words));
    ExpectSound();
  }
  void Close(SequenceId sequence, const std::vector<int32_t>& words,
             PageKind kind = 0) {
    const std::vector<int32_t> tokens = Text(words);
    cache_->Close(sequence, {"", tokens},
                  std::vector<PageKind>(words.size(), kind));
    ExpectSound();
  }
  // A text that is read and left behind.
  void Leave(SequenceId sequence, const std::vector<int32_t>& words) {
    Open(sequence, words);
    Grow(sequence, NumLeft(sequence, words));
    Close(sequence, words);
  }
};

TEST_F(KvCacheTiersTest, WhatLeavesTheDeviceGoesToTheHostAndComesBack) {
  Make(3, 4);
  Leave(kA, {1, 2, 3});
  EXPECT_EQ(Decided(), Copies());
  Leave(kB, {4, 5});
  // Leaves first, each before its KV block is given to another page.
  EXPECT_EQ(Decided(), (Copies{ToHost(2, 0), ToHost(1, 1)}));
  EXPECT_EQ(Places({1, 2, 3}), "dhh");
  Open(kC, {1, 2, 3});
  // Room is made by pages of the other text; the copies that come back first
  // were the only ones.
  EXPECT_EQ(Decided(), (Copies{ToHost(1, 2), ToDevice(1, 1), ToHost(2, 3),
                               ToDevice(0, 2)}));
  EXPECT_EQ(Places({1, 2, 3}), "ddd");
  EXPECT_EQ(Places({4, 5}), "hh");
  EXPECT_EQ(cache_->NumOnHost(kC), 2);
  cache_->Close(kC);
}

TEST_F(KvCacheTiersTest, DuplicatesAreTheFirstVictimsOfTheHost) {
  Make(3, 2);
  Leave(kA, {1, 2, 3});
  Leave(kB, {4, 5});
  Decided();
  // Both of the host hold pages that are about to come back. As soon as the
  // first is back, its copy is a duplicate, and makes room for another.
  Open(kC, {1, 2, 3});
  EXPECT_EQ(Decided().back(), ToDevice(0, 2));
  EXPECT_EQ(Places({1, 2, 3}), "ddd");
  EXPECT_EQ(Places({4, 5}), "h");
  cache_->Close(kC);
}

TEST_F(KvCacheTiersTest, ADuplicateIsNotCopiedAgain) {
  Make(2, 3);
  Leave(kA, {1, 2});
  Leave(kB, {3});
  EXPECT_EQ(Decided(), Copies{ToHost(1, 0)});
  Leave(kC, {1, 2});
  EXPECT_EQ(Decided(), (Copies{ToHost(1, 1), ToDevice(0, 1)}));
  Leave(kB, {4, 5});
  // Of {1, 2} the second page lies there already.
  EXPECT_EQ(Decided(), Copies{ToHost(0, 2)});
  EXPECT_EQ(Places({1, 2}), "hh");
}

TEST_F(KvCacheTiersTest, TheHostForgetsItsLeastRecentlyUsedLeaf) {
  Make(2, 3);
  Leave(kA, {1, 2});
  Leave(kB, {3, 4});
  Leave(kC, {5, 6});
  // Pages 2, 1 and 4 went there; 2 made room for 3.
  EXPECT_EQ(Places({1, 2}), "h");
  EXPECT_EQ(Places({3, 4}), "hh");
  EXPECT_EQ(cache_->num_free_host_pages(), 0);
}

TEST_F(KvCacheTiersTest, WithoutAHostPagesAreForgotten) {
  Make(2, 0);
  Leave(kA, {1, 2});
  Leave(kB, {3});
  EXPECT_EQ(Decided(), Copies());
  EXPECT_EQ(Places({1, 2}), "d");
}

// What is computed again meanwhile needs no copy from the host.
TEST_F(KvCacheTiersTest, WhatEntersTakesThePlaceOfWhatLiesOnTheHostAlone) {
  Make(4, 4);
  Leave(kA, {1, 2});
  EXPECT_TRUE(cache_->ReclaimIdle());
  EXPECT_TRUE(cache_->ReclaimIdle());
  EXPECT_FALSE(cache_->ReclaimIdle());
  EXPECT_EQ(Places({1, 2}), "hh");
  cache_->Open(kB);
  Grow(kB, 3 * kPageTokens);
  Decided();
  Close(kB, {1, 2, 3});
  EXPECT_EQ(Decided(), Copies());
  EXPECT_EQ(Places({1, 2, 3}), "ddd");
  EXPECT_EQ(cache_->num_free_host_pages(), 2);
}

TEST_F(KvCacheTiersTest, APagePathIsForgottenOnBothTiers) {
  Make(4, 4);
  Leave(kA, {1});
  Open(kB, {1, 2, 3});
  Grow(kB, 2 * kPageTokens);
  const std::vector<int32_t> tokens = Text({1, 2, 3});
  cache_->Close(kB, {"", tokens}, std::array<PageKind, 3>{0, 7, 7});
  EXPECT_TRUE(cache_->ReclaimIdle());
  EXPECT_EQ(Find({1, 2, 3}, kKindsOfParked).host_kv_blocks.size(), 1u);
  EXPECT_EQ(Places({1, 2, 3}), "d");  // The others are of another kind.
  cache_->Open(kC, Find({1, 2, 3}, kKindsOfParked));
  cache_->Forget({"", tokens}, kKindsOfParked);
  ExpectSound();
  EXPECT_EQ(Find({1, 2, 3}, kKindsOfParked).kinds.size(), 1u);
  EXPECT_EQ(cache_->pages(kC).size(), 3u);  // It keeps them for itself.
  EXPECT_EQ(cache_->num_free_host_pages(), 4);
  cache_->Close(kC);
  EXPECT_EQ(cache_->num_free_pages(), 4);
}

TEST_F(KvCacheTiersTest, AHitMayBeShortened) {
  Make(3, 3);
  Leave(kA, {1, 2, 3});
  cache_->ReclaimIdle();
  cache_->ReclaimIdle();
  PrefixHit hit = Find({1, 2, 3});
  hit.Shorten(7);
  EXPECT_EQ(hit.kinds.size(), 3u);
  hit.Shorten(2);
  EXPECT_EQ(hit.kinds.size(), 2u);
  EXPECT_EQ(hit.host_kv_blocks.size(), 1u);
  cache_->Open(kB, hit);
  EXPECT_EQ(Places({1, 2, 3}), "ddh");
  cache_->Close(kB);
  hit = Find({1, 2, 3});
  hit.Shorten(1);
  EXPECT_EQ(hit.kv_blocks.size(), 1u);
  EXPECT_EQ(hit.host_kv_blocks.size(), 0u);
}

// A step would write over what has not been copied out yet.
TEST_F(KvCacheTiersTest, CopiesAreTakenBeforeAStepIsCommitted) {
  Make(1, 1);
  Leave(kA, {1});
  cache_->Open(kB);
  const std::array<Growth, 1> growth = {{{kB, 1}}};
  {
    std::optional<Reservation> room = cache_->Reserve(growth);
    EXPECT_DEATH(room->Commit(), "1 copies between tiers are to be made");
  }
  // They are to be made also where the step is not.
  EXPECT_EQ(Decided(), Copies{ToHost(0, 0)});
  cache_->Close(kB);
}

}  // namespace
}  // namespace winnow
