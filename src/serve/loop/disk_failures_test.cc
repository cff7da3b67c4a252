#include "serve/loop/disk_failures.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

constexpr DiskFailures::Clock::time_point kStart;
constexpr auto kGap = DiskFailures::kGap;
using Line = std::optional<std::string>;

TEST(DiskFailuresTest, TheFirstIsToldAtOnceAndTheOthersTogether) {
  DiskFailures failures;
  DiskCounts counts;
  EXPECT_EQ(failures.Note(counts, kStart), Line());
  counts.num_failed_writes = 2;
  counts.last_failure = "full";
  EXPECT_EQ(failures.Note(counts, kStart),
            Line("2 pages of KV were not kept or not found again: full"));
  EXPECT_EQ(failures.Note(counts, kStart + 2 * kGap), Line());
  counts.num_failed_reads = 1;
  EXPECT_TRUE(failures.Note(counts, kStart + 3 * kGap));
  counts.num_failed_reads = 4;
  EXPECT_EQ(failures.Note(counts, kStart + 4 * kGap - kGap / 8), Line());
  counts.num_failed_writes = 5;
  counts.last_failure = "gone";
  EXPECT_EQ(failures.Note(counts, kStart + 4 * kGap),
            Line("6 pages of KV were not kept or not found again: gone"));
}

TEST(DiskFailuresTest, WhatIsLeftIsToldAtTheEnd) {
  DiskFailures failures;
  DiskCounts counts;
  counts.num_failed_writes = 1;
  EXPECT_TRUE(failures.Note(counts, kStart));
  EXPECT_EQ(failures.Rest(counts), Line());
  counts.num_failed_writes = 2;
  EXPECT_EQ(failures.Note(counts, kStart), Line());
  EXPECT_TRUE(failures.Rest(counts));
  EXPECT_EQ(failures.Rest(counts), Line());
}

}  // namespace
}  // namespace winnow
