#include "engine/schedule/restore_cost.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

// 1 GB/s over the link, half of it from the disk; 1 ms a step and 0.1 ms a row.
RestoreRates SomeRates() {
  return {.link_bytes_per_second = 1e9,
          .disk_bytes_per_second = 5e8,
          .computing = {.step_ms = 1,
                        .row_ms = 0.1,
                        .most = {.rows = 64, .reads = 1e6}},
          .max_step_rows = 64};
}

TEST(RestoreCostTest, WhatIsQuickerPays) {
  const RestoreRates rates = SomeRates();
  // 32 rows are computed in 4.2 ms.
  EXPECT_TRUE(RestorePays(rates, {.host_bytes = 4'199'999, .num_tokens = 32}));
  EXPECT_FALSE(RestorePays(rates, {.host_bytes = 4'200'001, .num_tokens = 32}));
  EXPECT_TRUE(RestorePays(rates, {.disk_bytes = 2'099'999, .num_tokens = 32}));
  EXPECT_FALSE(RestorePays(rates, {.disk_bytes = 2'100'001, .num_tokens = 32}));
  EXPECT_FALSE(RestorePays(
      rates,
      {.host_bytes = 2'200'000, .disk_bytes = 1'100'000, .num_tokens = 32}));
  EXPECT_TRUE(RestorePays(rates, {}));
}

// 160 rows are three steps.
TEST(RestoreCostTest, EachStepTakesItsTime) {
  const RestoreRates rates = SomeRates();
  EXPECT_TRUE(
      RestorePays(rates, {.host_bytes = 18'999'999, .num_tokens = 160}));
  EXPECT_FALSE(
      RestorePays(rates, {.host_bytes = 19'000'001, .num_tokens = 160}));
}

// 32 rows behind 1,000 tokens read 32 x 1,016.5.
TEST(RestoreCostTest, RowsReadWhatIsAheadOfThem) {
  RestoreRates rates = SomeRates();
  rates.computing = {.read_ms = 1e-3, .most = {.rows = 64, .reads = 1e6}};
  FarPages pages = {
      .host_bytes = 32'527'999, .first_token = 1000, .num_tokens = 32};
  EXPECT_TRUE(RestorePays(rates, pages));
  pages.host_bytes = 32'528'001;
  EXPECT_FALSE(RestorePays(rates, pages));
}

TEST(RestoreCostTest, ForetellsWhatIsKnown) {
  RestoreRates rates = SomeRates();
  const FarPages pages = {
      .host_bytes = 2'000'000, .disk_bytes = 1'000'000, .num_tokens = 32};
  EXPECT_NEAR(*Foretell(rates, pages).copying_ms, 4.0, 1e-9);
  EXPECT_NEAR(*Foretell(rates, pages).computing_ms, 4.2, 1e-9);
  rates.disk_bytes_per_second = 0;
  EXPECT_FALSE(Foretell(rates, pages).copying_ms);
  EXPECT_TRUE(Foretell(rates, pages).computing_ms);
  rates = SomeRates();
  rates.computing.most.rows = 15;
  EXPECT_TRUE(Foretell(rates, pages).copying_ms);
  EXPECT_FALSE(Foretell(rates, pages).computing_ms);
}

TEST(RestoreCostTest, WhatIsNotKnownIsCopied) {
  const FarPages from_host = {.host_bytes = 1 << 30, .num_tokens = 32};
  const FarPages from_disk = {.disk_bytes = 1 << 30, .num_tokens = 32};
  RestoreRates rates = SomeRates();
  EXPECT_FALSE(RestorePays(rates, from_host));
  EXPECT_FALSE(RestorePays(rates, from_disk));
  rates.link_bytes_per_second = 0;
  EXPECT_TRUE(RestorePays(rates, from_host));
  EXPECT_FALSE(RestorePays(rates, from_disk));
  rates = SomeRates();
  rates.disk_bytes_per_second = 0;
  EXPECT_FALSE(RestorePays(rates, from_host));
  EXPECT_TRUE(RestorePays(rates, from_disk));
  rates = SomeRates();
  rates.computing.most.rows = 15;  // So 32 are a guess.
  EXPECT_TRUE(RestorePays(rates, from_host));
  rates = SomeRates();
  // 64 rows behind 62.5K tokens read four million.
  EXPECT_FALSE(RestorePays(
      rates, {.host_bytes = int64_t{1} << 40, .num_tokens = 62'500}));
  EXPECT_TRUE(RestorePays(
      rates, {.host_bytes = int64_t{1} << 40, .num_tokens = 62'501}));
  EXPECT_TRUE(RestorePays({}, from_host));
}

TEST(RestoreCostTest, NothingIsCopiedWhereNothingIsTo) {
  RestoreRates rates = {.never_copies = true};
  EXPECT_FALSE(RestorePays(rates, {.host_bytes = 1, .num_tokens = 32}));
  rates = SomeRates();
  const FarPages pages = {.disk_bytes = 1, .num_tokens = 32};
  EXPECT_TRUE(RestorePays(rates, pages));
  rates.never_copies = true;
  EXPECT_FALSE(RestorePays(rates, pages));
}

TEST(RateMeterTest, KnowsWhatIsOfLate) {
  using std::chrono::seconds;
  RateMeter meter;
  const RateMeter::Clock::time_point start = {};
  EXPECT_EQ(meter.PerSecond(start), 0);
  meter.Add(100, 0.5, start);
  meter.Add(50, 0.5, start);
  EXPECT_DOUBLE_EQ(meter.PerSecond(start), 150);
  for (int i = 0; i < 20; ++i) meter.Add(1000, 1, start + seconds(i));
  EXPECT_NEAR(meter.PerSecond(start + seconds(20)), 1000, 1);
  EXPECT_GT(meter.PerSecond(start + seconds(79)), 0);
  EXPECT_EQ(meter.PerSecond(start + seconds(80)), 0) << "a minute old";
}

}  // namespace
}  // namespace winnow
