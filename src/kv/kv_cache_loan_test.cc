// Extents that a sequence uses before it has pages.
#include <gtest/gtest.h>

#include "kv/kv_cache.h"

namespace winnow {
namespace {

constexpr SequenceId kA(1), kB(2);

void ExpectSound(const KvCache& cache) {
  EXPECT_EQ(BrokenInvariants(cache.Snapshot()), std::vector<std::string>());
}

TEST(KvCacheLoanTest, WhatIsLentBecomesPages) {
  KvCache cache(5, kPageTokens, 4);
  cache.Open(kA);
  EXPECT_FALSE(cache.has_loan(kA));
  cache.LendTo(kA, 3, 2);
  ExpectSound(cache);
  EXPECT_EQ(cache.num_free_pages(), 2);
  EXPECT_EQ(cache.num_available_host_pages(), 2);
  const PageLoan loan = cache.loan(kA);
  EXPECT_EQ(loan.extents.size(), 3u);
  EXPECT_EQ(loan.hosts.size(), 2u);
  EXPECT_EQ(cache.num_tokens(kA), 0);

  cache.TakeOver(kA, 2 * kPageTokens + 5);
  ExpectSound(cache);
  EXPECT_FALSE(cache.has_loan(kA));
  EXPECT_EQ(cache.num_tokens(kA), 2 * kPageTokens + 5);
  EXPECT_EQ(cache.num_sealed(kA), 2 * kPageTokens + 5);
  EXPECT_EQ(cache.pages(kA)[0], kNoExtent);
  EXPECT_EQ(cache.pages(kA)[2], loan.extents[0]);
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

TEST(KvCacheLoanTest, AsMuchAsThereIs) {
  KvCache cache(2, kPageTokens, 1);
  cache.Open(kA);
  EXPECT_DEATH(cache.LendTo(kA, 3, 1), "extents=3 of 2");
  EXPECT_DEATH(cache.LendTo(kA, 2, 2), "host extents=2 of 1");
  cache.LendTo(kA, 1, 1);
  EXPECT_DEATH(cache.LendTo(kA, 1, 0), "has a loan");
  EXPECT_DEATH(cache.TakeOver(kA, kPageTokens - 1), "num_tokens=31");
  EXPECT_DEATH(cache.TakeOver(kA, 2 * kPageTokens + 1), "num_tokens=65");
  cache.Close(kA);
}

}  // namespace
}  // namespace winnow
