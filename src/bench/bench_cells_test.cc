#include "bench/bench_cells.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(BenchCellsTest, CountsAreReadWithTheirUnits) {
  EXPECT_EQ(ParseCounts("--batches", "1", 8).value(), std::vector<int>{1});
  EXPECT_EQ(ParseCounts("--contexts", "1K,32K,7", 1 << 20).value(),
            (std::vector<int>{1024, 32768, 7}));
}

TEST(BenchCellsTest, WhatIsNoCountIsNamed) {
  for (const char* list :
       {"", "0", "9", "1,", ",1", "1,,2", "x", "-1", "1 2"}) {
    const auto counts = ParseCounts("--batches", list, 8);
    ASSERT_FALSE(counts.ok()) << list;
    EXPECT_EQ(counts.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(counts.error().message.starts_with(
        "--batches must be numbers from 1 to 8 with commas"))
        << counts.error().message;
  }
}

}  // namespace
}  // namespace winnow
