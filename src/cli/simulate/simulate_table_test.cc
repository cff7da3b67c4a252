#include "cli/simulate/simulate_table.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

// The line of a best budget, behind the head of its table.
std::string LineOf(const BestBudget& best) {
  SimulateReport report;
  report.plan = *ParseSimulatePlan({});
  const std::string table = SimulateTable(report, {}, {best});
  return table.substr(table.rfind('\n', table.size() - 2) + 1);
}

TEST(SimulateTableTest, ABatchOfNothingIsNone) {
  BestBudget best = {.context_tokens = 1 << 20,
                     .most_tokens = true,
                     .batch = 0,
                     .cache_budget = "2x",
                     .policy = "age",
                     .lacks = {{"--memory-gib", 8, 20}}};
  EXPECT_EQ(
      LineOf(best),
      "   1,048,576      + nothing fits at any batch; one request with 2x "
      "lacks least: --memory-gib is 8, must be 20\n");
  best.most_tokens = false;
  best.batch = 16;
  EXPECT_EQ(LineOf(best),
            "   1,048,576     16 nothing fits; least lacks 2x: --memory-gib is "
            "8, must be 20\n");
}

TEST(SimulateTableTest, TheBatchOfMostTokensIsMarked) {
  const BestBudget best = {.context_tokens = 4096,
                           .most_tokens = true,
                           .batch = 7,
                           .cache_budget = "whole",
                           .policy = {},
                           .cost = {.tpot_ms = 1.5, .tokens_s = 700}};
  EXPECT_TRUE(LineOf(best).starts_with("       4,096     +7  whole     - -"))
      << LineOf(best);
}

}  // namespace
}  // namespace winnow
