#include "kv/lingering_pages.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kv/testing/kv_cache_case.h"
#include "kv/tiered_texts.h"

namespace winnow {
namespace {

using Pages = std::vector<LingeringPage>;

TEST(LingeringPagesTest, APageLingersUntilItsExtentIsTaken) {
  ExtentPool pool(3);
  for (int i = 0; i < 3; ++i) (void)pool.Take();
  LingeringPages pages;
  for (const uint32_t extent : {2, 0}) {
    const ExtentId id(extent);
    pages.Leave(5 + extent, id, pool.version(id), 100);
    pool.Release(id);
  }
  const LingeringPage first = {7, ExtentId(2)}, second = {5, ExtentId(0)};
  EXPECT_EQ(pages.StillThere(pool, 100), (Pages{first, second}));
  ASSERT_EQ(pool.Take(), ExtentId(0));
  EXPECT_EQ(pages.StillThere(pool, 100), Pages{first});
  // Nor is it there when who took it has given it back.
  pool.Release(ExtentId(0));
  EXPECT_EQ(pages.StillThere(pool, 100), Pages{first});
  pool.Release(ExtentId(1));
}

TEST(LingeringPagesTest, WhoSharesAnExtentWritesNothing) {
  ExtentPool pool(1);
  const ExtentId id = *pool.Take();
  LingeringPages pages;
  pages.Leave(3, id, pool.version(id), 40);
  pool.Share(id);
  pool.Release(id);
  EXPECT_EQ(pages.StillThere(pool, 40), (Pages{{3, id}}));
  pool.NewVersion(id);
  EXPECT_EQ(pages.StillThere(pool, 40), Pages());
  pool.Release(id);
}

TEST(LingeringPagesTest, ItDoesSoForAFewTokens) {
  ExtentPool pool(2);
  LingeringPages pages;
  pages.Leave(0, ExtentId(0), pool.version(ExtentId(0)), 64);
  pages.Leave(1, ExtentId(1), pool.version(ExtentId(1)), 70);
  const LingeringPage first = {0, ExtentId(0)}, second = {1, ExtentId(1)};
  EXPECT_EQ(pages.StillThere(pool, 63 + kLingerTokens), (Pages{first, second}));
  EXPECT_EQ(pages.StillThere(pool, 64 + kLingerTokens), Pages{second});
  EXPECT_EQ(pages.StillThere(pool, 70 + kLingerTokens), Pages());
  // What is too old is forgotten when the next one leaves.
  pages.Leave(2, ExtentId(0), pool.version(ExtentId(0)), 64 + kLingerTokens);
  EXPECT_EQ(pages.StillThere(pool, 0), (Pages{second, {2, ExtentId(0)}}));
}

TEST(LingeringPagesTest, AWholePageIsForgotten) {
  ExtentPool pool(1);
  LingeringPages pages;
  pages.Leave(4, ExtentId(0), pool.version(ExtentId(0)), 1);
  pages.Forget(3);
  EXPECT_EQ(pages.StillThere(pool, 1).size(), 1u);
  pages.Forget(4);
  EXPECT_EQ(pages.StillThere(pool, 1), Pages());
}

class LingeringTextsTest : public TieredTexts {
 protected:
  void Leave(SequenceId sequence, int64_t end_page) {
    cache_->MoveToHost(sequence, cache_->Movable(sequence, end_page));
  }
  // Their pages, as digits.
  std::string Lingering(SequenceId sequence) {
    std::string pages;
    for (const auto& [page, extent] : cache_->LingeringPagesOf(sequence)) {
      pages += static_cast<char>('0' + page);
    }
    return pages;
  }
};

TEST_F(LingeringTextsTest, WhatOthersTakeLingersNoLonger) {
  Make(5, 9);
  cache_->Open(kA);
  Grow(kA, 3 * kPageTokens + 1);
  EXPECT_EQ(Lingering(kA), "");
  Leave(kA, 3);
  EXPECT_EQ(Lingering(kA), "012");
  cache_->Open(kB);
  Grow(kB, 1);  // The lowest free extent, which page 0 has left.
  EXPECT_EQ(Lingering(kA), "12");
  const ExtentId lent = *cache_->Lend();
  EXPECT_EQ(Lingering(kA), "2");
  cache_->GiveBack(lent);
  cache_->Close(kB);
  EXPECT_EQ(Lingering(kA), "2");
  Grow(kA, kLingerTokens);
  EXPECT_EQ(Lingering(kA), "");
  cache_->Close(kA);
}

// What the index has yet lingers, also while others read it; what comes back is
// whole.
TEST_F(LingeringTextsTest, WhatTheIndexHasLingers) {
  Make(4, 9);
  cache_->Open(kA);
  Grow(kA, 3 * kPageTokens);
  const std::vector<int32_t> tokens = Text({1, 2, 3});
  cache_->Enter(kA, {"", tokens}, std::vector<PageKind>(3, 0));
  Leave(kA, 3);
  EXPECT_EQ(Lingering(kA), "012");
  cache_->Open(kB, Find({1, 2}));
  EXPECT_EQ(Lingering(kA), "012");
  EXPECT_TRUE(cache_->EvictIdle());
  EXPECT_EQ(Lingering(kA), "012");  // It is free, and nobody has taken it.
  // B writes where page 1 lay, as its last owner.
  const std::vector<PageKind> kinds(2, 0);
  cache_->Forget({"", tokens}, kinds);
  EXPECT_EQ(Lingering(kA), "012");
  cache_->Truncate(kB, kPageTokens + 3);
  EXPECT_EQ(Lingering(kA), "02");
  cache_->MoveToDevice(kA, 1);
  EXPECT_EQ(Lingering(kA), "");  // In the extent that page 2 had left.
  cache_->Close(kA);
  cache_->Close(kB);
}

}  // namespace
}  // namespace winnow
