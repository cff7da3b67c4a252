#include "cli/simulate.h"

#include <gtest/gtest.h>

#include "cli/simulate_table.h"

namespace winnow {
namespace {

TEST(SimulateTest, ListsAreReadInTheirOrder) {
  SimulateFlags flags;
  flags.cache_budgets = "5x,4K,0.5x";
  flags.policies = "belady,hold";
  flags.slot_tokens = "32,8";
  flags.batches = "64,1";
  flags.hint_level = "1.5x";
  flags.hint_source = "layer";
  flags.rates.link_gb_s = 12;
  const Result<SimulatePlan> plan = ParseSimulatePlan(flags);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->budgets.size(), 3u);
  EXPECT_EQ(plan->budgets[0].times, 5);
  EXPECT_EQ(plan->budgets[1].tokens, 4096);
  EXPECT_EQ(plan->budgets[2].times, 0.5);
  EXPECT_EQ(plan->rules,
            (std::vector<SlotRule>{SlotRule::kBelady, SlotRule::kHold}));
  EXPECT_EQ(plan->slot_tokens, (std::vector<int>{32, 8}));
  EXPECT_EQ(plan->batches, (std::vector<int64_t>{64, 1}));
  EXPECT_EQ(plan->hint_level, 1500);
  EXPECT_EQ(plan->hint_source, HintSource::kPreviousLayer);
  EXPECT_EQ(plan->device.link_gb_s, 12);
  EXPECT_EQ(plan->device.memory_gb_s, 4264);
}

// Llama-3.1-8B has 8.03 billion weights; a step reads all but the embedding.
TEST(SimulateTest, AShapeHasItsWeights) {
  const SimulatePlan plan = *ParseSimulatePlan({});
  EXPECT_EQ(plan.model.num_weights, 7'504'658'432);
  EXPECT_EQ(plan.model.num_layers, 32);
  EXPECT_EQ(plan.model.token_bytes(), 2 * 128 * 2);
}

TEST(SimulateTest, WorkIsARowsShareOfTheTotals) {
  SimulateReport report;
  report.header.num_q_heads = report.header.num_kv_heads = 2;
  report.header.head_dim = 64;
  report.header.kv_element_bytes = 2;
  report.header.summary_bytes = 4096;
  report.header.chooses = {false, true, true};
  report.header.levels = {kBudgetLevel};
  report.plan = *ParseSimulatePlan({});
  SimulateCell cell;
  cell.slot_tokens = 8;
  cell.totals.num_rows = 10;
  cell.totals.context_tokens = 10'000;
  cell.totals.read_tokens = 10 * 2 * 2 * 300;
  cell.totals.slot_tokens = 10 * 2 * 640;
  cell.totals.counts.missed = 80;
  cell.totals.counts.bring[kHintsCount] = 40;
  const RowWork work = WorkOf(report, cell);
  EXPECT_EQ(work.context_tokens, 1000);
  EXPECT_EQ(work.dense_layers, 1);
  EXPECT_EQ(work.read_tokens, 300);
  EXPECT_EQ(work.missed_tokens, 80 * 8 / 40.0);
  EXPECT_EQ(work.hinted_tokens, 40 * 8 / 40.0);
  EXPECT_EQ(work.slot_tokens, 640);
  EXPECT_EQ(work.summary_bytes, 4096.0 / 1024 / 64 * 128);
}

}  // namespace
}  // namespace winnow
