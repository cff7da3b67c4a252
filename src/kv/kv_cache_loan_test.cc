// KV blocks that a sequence uses before it has pages.
#include <gtest/gtest.h>

#include "kv/testing/kv_cache_case.h"

namespace winnow {
namespace {

TEST(KvCacheLoanTest, WhatIsLentBecomesPages) {
  KvCache cache(5, kPageTokens, 4);
  cache.Open(kA);
  EXPECT_FALSE(cache.has_loan(kA));
  cache.LendTo(kA, 3, 2);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_free_pages(), 2);
  EXPECT_EQ(cache.num_available_host_pages(), 2);
  const PageLoan loan = cache.loan(kA);
  EXPECT_EQ(loan.kv_blocks.size(), 3u);
  EXPECT_EQ(loan.hosts.size(), 2u);
  EXPECT_EQ(cache.num_tokens(kA), 0);

  cache.TakeOver(kA, 2 * kPageTokens + 5);
  ExpectSound(cache);
  EXPECT_FALSE(cache.has_loan(kA));
  EXPECT_EQ(cache.num_tokens(kA), 2 * kPageTokens + 5);
  EXPECT_EQ(cache.num_sealed(kA), 2 * kPageTokens + 5);
  EXPECT_EQ(cache.pages(kA)[0], kNoKvBlock);
  EXPECT_EQ(cache.pages(kA)[2], loan.kv_blocks[0]);
  EXPECT_EQ(cache.far_pages(kA)[1], loan.hosts[1]);
  EXPECT_EQ(cache.NumFar(kA), 2);
  EXPECT_EQ(cache.num_free_pages(), 4);
  EXPECT_EQ(cache.num_available_host_pages(), 2);
  EXPECT_TRUE(cache.TakeTierCopies().empty());
  cache.Close(kA);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_available_host_pages(), 4);
}

TEST(KvCacheLoanTest, ALoanEndsWithItsSequence) {
  KvCache cache(4, kPageTokens, 4);
  cache.Open(kA);
  cache.Open(kB);
  cache.LendTo(kA, 2, 1);
  cache.LendTo(kB, 2, 3);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_free_pages(), 0);
  EXPECT_EQ(cache.num_available_host_pages(), 0);
  cache.Close(kA);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_free_pages(), 2);
  EXPECT_EQ(cache.num_available_host_pages(), 1);
  cache.Close(kB);
  EXPECT_EQ(cache.num_free_pages(), 4);
}

// Of a text's two pages one is on the device alone, the other on the host.
TEST(KvCacheLoanTest, ItBeginsWithPagesOfTheIndex) {
  KvCache cache(3, kPageTokens, 4);
  const std::vector<int32_t> tokens(2 * kPageTokens, 7);
  const PrefixPath path = {"root", tokens};
  const std::vector<PageKind> kinds = {0, 0};
  cache.Open(kA);
  const Growth growth = {kA, 2 * kPageTokens};
  cache.Reserve({&growth, 1})->Commit();
  cache.Seal(kA, 2 * kPageTokens);
  cache.Close(kA, path, kinds);
  // The second page leaves.
  cache.Open(kA);
  cache.LendTo(kA, 2, 0);
  cache.Close(kA);
  EXPECT_EQ(cache.TakeTierCopies().size(), 1u);
  const PrefixHit hit = cache.prefixes().Find(path, 2, kinds);
  ASSERT_EQ(hit.kv_blocks.size(), 1u);
  ASSERT_EQ(hit.host_kv_blocks.size(), 1u);

  cache.Open(kB);
  cache.LendTo(kB, 3, 3, hit);
  ExpectSound(cache);
  const PageLoan loan = cache.loan(kB);
  EXPECT_EQ(loan.hosts[1], hit.host_kv_blocks[0]);
  // The first one left for good, and not before its copy.
  const std::vector<TierCopy> copies = cache.TakeTierCopies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0], (TierCopy{TierCopy::Direction::kToHost, hit.kv_blocks[0],
                                 loan.hosts[0]}));
  EXPECT_EQ(cache.num_available_host_pages(), 1);
  // The index has them for others as well, and after its end.
  EXPECT_EQ(cache.prefixes().Find(path, 2, kinds).host_kv_blocks,
            (std::vector<KvBlockId>{loan.hosts[0], loan.hosts[1]}));
  cache.TakeOver(kB, 4 * kPageTokens + 1);
  ExpectSound(cache);
  cache.Close(kB);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_available_host_pages(), 4);
  EXPECT_EQ(cache.prefixes().Find(path, 2, kinds).host_kv_blocks.size(), 2u);
}

TEST(KvCacheLoanTest, WhatItTookOverIsFoundWhileItRuns) {
  KvCache cache(4, kPageTokens, 4);
  const std::vector<int32_t> tokens(3 * kPageTokens, 7);
  const std::vector<PageKind> kinds(2, 0);
  const PrefixPath path = {"", tokens};
  cache.Open(kA);
  cache.LendTo(kA, 2, 2);
  const PageLoan loan = cache.loan(kA);
  cache.TakeOver(kA, 2 * kPageTokens + 5);
  cache.Enter(kA, path, kinds);
  ExpectSound(cache);
  EXPECT_EQ(cache.prefixes().Find(path, 2, kinds).host_kv_blocks, loan.hosts);
  // They are held, whatever the index forgets.
  EXPECT_EQ(cache.num_available_host_pages(), 2);
  cache.Open(kB);
  cache.LendTo(kB, 1, 2, cache.prefixes().Find(path, 2, kinds));
  ExpectSound(cache);
  EXPECT_EQ(cache.loan(kB).hosts, loan.hosts);
  EXPECT_TRUE(cache.TakeTierCopies().empty());
  cache.Close(kA);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_available_host_pages(), 2);
  cache.Close(kB);
  EXPECT_EQ(cache.num_available_host_pages(), 4);
}

// What room is made for on the host is not what it begins with.
TEST(KvCacheLoanTest, RoomIsMadeBesideWhatItBeginsWith) {
  KvCache cache(4, kPageTokens, 3);
  const std::vector<PageKind> kinds = {0};
  for (const int text : {1, 2, 3}) {
    const std::vector<int32_t> tokens(kPageTokens, text);
    cache.Open(kA);
    const Growth growth = {kA, kPageTokens};
    cache.Reserve({&growth, 1})->Commit();
    cache.Seal(kA, kPageTokens);
    cache.Close(kA, {"root", tokens}, kinds);
  }
  while (cache.ReclaimIdle()) {
  }
  (void)cache.TakeTierCopies();
  // The one used longest ago would leave the host first.
  const std::vector<int32_t> tokens(kPageTokens, 1);
  const PrefixHit hit = cache.prefixes().Find({"root", tokens}, 1, kinds);
  ASSERT_EQ(hit.host_kv_blocks.size(), 1u);
  cache.Open(kB);
  cache.LendTo(kB, 0, 3, hit);
  ExpectSound(cache);
  EXPECT_EQ(cache.loan(kB).hosts[0], hit.host_kv_blocks[0]);
  cache.Close(kB);
  ExpectSound(cache);
}

TEST(KvCacheLoanTest, AsMuchAsThereIs) {
  KvCache cache(2, kPageTokens, 1);
  cache.Open(kA);
  EXPECT_DEATH(cache.LendTo(kA, 3, 1), "KV blocks=3 of 2");
  EXPECT_DEATH(cache.LendTo(kA, 2, 2), "host KV blocks=2 of 1");
  cache.LendTo(kA, 1, 1);
  EXPECT_DEATH(cache.LendTo(kA, 1, 0), "has a loan");
  EXPECT_DEATH(cache.TakeOver(kA, kPageTokens - 1), "num_tokens=31");
  EXPECT_DEATH(cache.TakeOver(kA, 2 * kPageTokens + 1), "num_tokens=65");
  cache.Close(kA);
}

}  // namespace
}  // namespace winnow
