#include "backend/contract/token_runs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace winnow {
namespace {

using Runs = std::vector<std::pair<int, int>>;

Runs RunsOf(uint32_t tokens) {
  Runs runs;
  ForEachRun(tokens,
             [&](int first, int count) { runs.emplace_back(first, count); });
  return runs;
}

TEST(TokenRunsTest, EndWithThePage) {
  EXPECT_EQ(RunsOf(0), Runs());
  EXPECT_EQ(RunsOf(1), Runs({{0, 1}}));
  EXPECT_EQ(RunsOf(0x80000000), Runs({{31, 1}}));
  EXPECT_EQ(RunsOf(0xffffffff), Runs({{0, 32}}));
  EXPECT_EQ(RunsOf(0xf00000f0), Runs({{4, 4}, {28, 4}}));
}

TEST(TokenRunsTest, AreTheTokensAndAsLongAsTheyCanBe) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const auto tokens = static_cast<uint32_t>(
        round % 2 == 0 ? random() & random() : random() | random());
    uint32_t seen = 0;
    int end = -1;  // of the run before
    for (const auto& [first, count] : RunsOf(tokens)) {
      ASSERT_GT(first, end) << tokens;
      ASSERT_GT(count, 0) << tokens;
      ASSERT_LE(first + count, 32) << tokens;
      for (int i = first; i < first + count; ++i) seen |= uint32_t{1} << i;
      end = first + count;
    }
    ASSERT_EQ(seen, tokens);
  }
}

}  // namespace
}  // namespace winnow
