#include "kv/reclaimable_pages.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kv/testing/kv_cache_case.h"
#include "kv/tiered_texts.h"

namespace winnow {
namespace {

using Pages = std::vector<ReclaimablePage>;

TEST(ReclaimablePagesTest, APageLingersUntilItsKvBlockIsTaken) {
  KvBlockPool pool(3);
  for (int i = 0; i < 3; ++i) (void)pool.Take();
  ReclaimablePages pages;
  for (const uint32_t kv_block : {2, 0}) {
    const KvBlockId id(kv_block);
    pages.Leave(5 + kv_block, id, pool.version(id), 100);
    pool.Release(id);
  }
  const ReclaimablePage first = {7, KvBlockId(2)}, second = {5, KvBlockId(0)};
  EXPECT_EQ(pages.StillThere(pool, 100), (Pages{first, second}));
  ASSERT_EQ(pool.Take(), KvBlockId(0));
  EXPECT_EQ(pages.StillThere(pool, 100), Pages{first});
  // Nor is it there when who took it has given it back.
  pool.Release(KvBlockId(0));
  EXPECT_EQ(pages.StillThere(pool, 100), Pages{first});
  pool.Release(KvBlockId(1));
}

TEST(ReclaimablePagesTest, WhoSharesAnKvBlockWritesNothing) {
  KvBlockPool pool(1);
  const KvBlockId id = *pool.Take();
  ReclaimablePages pages;
  pages.Leave(3, id, pool.version(id), 40);
  pool.Share(id);
  pool.Release(id);
  EXPECT_EQ(pages.StillThere(pool, 40), (Pages{{3, id}}));
  pool.NewVersion(id);
  EXPECT_EQ(pages.StillThere(pool, 40), Pages());
  pool.Release(id);
}

TEST(ReclaimablePagesTest, ItDoesSoForAFewTokens) {
  KvBlockPool pool(2);
  ReclaimablePages pages;
  pages.Leave(0, KvBlockId(0), pool.version(KvBlockId(0)), 64);
  pages.Leave(1, KvBlockId(1), pool.version(KvBlockId(1)), 70);
  const ReclaimablePage first = {0, KvBlockId(0)}, second = {1, KvBlockId(1)};
  EXPECT_EQ(pages.StillThere(pool, 63 + kLingerTokens), (Pages{first, second}));
  EXPECT_EQ(pages.StillThere(pool, 64 + kLingerTokens), Pages{second});
  EXPECT_EQ(pages.StillThere(pool, 70 + kLingerTokens), Pages());
  // What is too old is forgotten when the next one leaves.
  pages.Leave(2, KvBlockId(0), pool.version(KvBlockId(0)), 64 + kLingerTokens);
  EXPECT_EQ(pages.StillThere(pool, 0), (Pages{second, {2, KvBlockId(0)}}));
}

TEST(ReclaimablePagesTest, AWholePageIsForgotten) {
  KvBlockPool pool(1);
  ReclaimablePages pages;
  pages.Leave(4, KvBlockId(0), pool.version(KvBlockId(0)), 1);
  pages.Forget(3);
  EXPECT_EQ(pages.StillThere(pool, 1).size(), 1u);
  pages.Forget(4);
  EXPECT_EQ(pages.StillThere(pool, 1), Pages());
}

class ReclaimableTextsTest : public TieredTexts {
 protected:
  void Leave(SequenceId sequence, int64_t end_page) {
    cache_->MoveToHost(sequence, cache_->Movable(sequence, end_page));
  }
  // Their pages, as digits.
  std::string Reclaimable(SequenceId sequence) {
    std::string pages;
    for (const auto& [page, kv_block] : cache_->ReclaimablePagesOf(sequence)) {
      pages += static_cast<char>('0' + page);
    }
    return pages;
  }
};

TEST_F(ReclaimableTextsTest, WhatOthersTakeLingersNoLonger) {
  Make(5, 9);
  cache_->Open(kA);
  Grow(kA, 3 * kPageTokens + 1);
  EXPECT_EQ(Reclaimable(kA), "");
  Leave(kA, 3);
  EXPECT_EQ(Reclaimable(kA), "012");
  cache_->Open(kB);
  Grow(kB, 1);  // The lowest free KV block, which page 0 has left.
  EXPECT_EQ(Reclaimable(kA), "12");
  const KvBlockId lent = *cache_->Lend();
  EXPECT_EQ(Reclaimable(kA), "2");
  cache_->GiveBack(lent);
  cache_->Close(kB);
  EXPECT_EQ(Reclaimable(kA), "2");
  Grow(kA, kLingerTokens);
  EXPECT_EQ(Reclaimable(kA), "");
  cache_->Close(kA);
}

// What the index has yet stays reclaimable, also while others read it; what
// comes back is whole.
TEST_F(ReclaimableTextsTest, WhatTheIndexHasIsReclaimable) {
  Make(4, 9);
  cache_->Open(kA);
  Grow(kA, 3 * kPageTokens);
  const std::vector<int32_t> tokens = Text({1, 2, 3});
  cache_->Enter(kA, {"", tokens}, std::vector<PageKind>(3, 0));
  Leave(kA, 3);
  EXPECT_EQ(Reclaimable(kA), "012");
  cache_->Open(kB, Find({1, 2}));
  EXPECT_EQ(Reclaimable(kA), "012");
  EXPECT_TRUE(cache_->ReclaimIdle());
  EXPECT_EQ(Reclaimable(kA), "012");  // It is free, and nobody has taken it.
  // B writes where page 1 lay, as its last owner.
  const std::vector<PageKind> kinds(2, 0);
  cache_->Forget({"", tokens}, kinds);
  EXPECT_EQ(Reclaimable(kA), "012");
  cache_->Truncate(kB, kPageTokens + 3);
  EXPECT_EQ(Reclaimable(kA), "02");
  cache_->MoveToDevice(kA, 1);
  EXPECT_EQ(Reclaimable(kA), "");  // In the KV block that page 2 had left.
  cache_->Close(kA);
  cache_->Close(kB);
}

}  // namespace
}  // namespace winnow
