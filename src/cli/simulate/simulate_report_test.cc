#include "cli/simulate/simulate_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulate/length_fit.h"

namespace winnow {
namespace {

SimulateReport ReportOf(const std::string& contexts) {
  SimulateReport report;
  report.file = "a.trace";
  report.header.num_q_heads = report.header.num_kv_heads = 2;
  report.header.head_dim = 64;
  report.header.kv_element_bytes = 2;
  report.header.summary_bytes = 4096;
  report.header.chooses = {false, true, true};
  report.header.levels = {kBudgetLevel};
  SimulateFlags flags;
  flags.contexts = contexts;
  report.plan = *ParseSimulatePlan(flags);
  return report;
}

// Ten rows that want 1,000 pieces and miss so many.
ReplayTotals TotalsOf(int64_t context, int64_t num_missed) {
  ReplayTotals totals;
  totals.num_rows = 10;
  totals.context_tokens = 10 * context;
  totals.read_tokens = 10 * 2 * 2 * 300;
  totals.slot_tokens = 10 * 2 * 640;
  totals.counts.wanted = 1000;
  totals.counts.missed = num_missed;
  totals.counts.fetch[kHintsCount] = 40;
  return totals;
}

SimulateCell CellOf(const std::vector<ReplayTotals>& lengths) {
  SimulateCell cell;
  cell.cache_budget = "3x";
  cell.slot_tokens = 8;
  for (const ReplayTotals& totals : lengths) {
    cell.by_length[LengthClass(static_cast<double>(totals.context_tokens) /
                               10)] = totals;
  }
  return cell;
}

TEST(SimulateReportTest, WorkIsARowsShareOfTheTotals) {
  const RowWork work = WorkOf(ReportOf(""), 8, TotalsOf(1000, 80));
  EXPECT_EQ(work.context_tokens, 1000);
  EXPECT_EQ(work.dense_layers, 1);
  EXPECT_EQ(work.read_tokens, 300);
  EXPECT_EQ(work.wanted_tokens, 1000 * 8 / 40.0);
  EXPECT_EQ(work.missed_tokens, 80 * 8 / 40.0);
  EXPECT_EQ(work.hit_rate(), 0.92);
  EXPECT_EQ(work.hinted_tokens, 40 * 8 / 40.0);
  EXPECT_EQ(work.slot_tokens, 640);
  EXPECT_EQ(work.piece_tokens, 8);
  // 16 and 8 tokens of two layers and two KV heads, K and V of 64 numbers.
  EXPECT_EQ(FetchedBytes(ReportOf(""), {.work = work}),
            24 * 2 * 2 * 2 * 64 * 2);
  EXPECT_EQ(work.summary_bytes, 4096.0 / 1024 / 64 * 128);
}

TEST(SimulateReportTest, WithoutContextsAllThatWasRecordedIsOne) {
  SimulateReport report = ReportOf("");
  report.cells = {CellOf({TotalsOf(4096, 100), TotalsOf(8192, 200)})};
  const auto placed = PlaceCells(report);
  ASSERT_TRUE(placed.ok());
  ASSERT_EQ(placed->size(), 1u);
  EXPECT_EQ((*placed)[0].context_tokens, 6144);
  EXPECT_EQ((*placed)[0].cells[0].work.hit_rate(), 0.85);
  EXPECT_EQ((*placed)[0].basis, WorkBasis::kRecorded);
}

TEST(SimulateReportTest, ContextsSayWhereTheyComeFrom) {
  SimulateReport report = ReportOf("4K,8K,16K,1M");
  report.cells = {CellOf({TotalsOf(4096, 100), TotalsOf(16384, 200)}),
                  CellOf({TotalsOf(4096, 50), TotalsOf(16384, 50)})};
  const auto placed = PlaceCells(report);
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  ASSERT_EQ(placed->size(), 4u);
  const WorkBasis bases[] = {WorkBasis::kRecorded, WorkBasis::kInterpolated,
                             WorkBasis::kRecorded, WorkBasis::kExtrapolated};
  // Two doublings, and six more.
  const double misses[] = {0.10, 1 - std::sqrt(0.9 * 0.8), 0.20,
                           1 - 0.8 * std::pow(0.8 / 0.9, 3)};
  for (size_t i = 0; i < 4; ++i) {
    const PlacedCells& at = (*placed)[i];
    EXPECT_EQ(at.basis, bases[i]);
    ASSERT_EQ(at.cells.size(), 2u);
    EXPECT_EQ(at.cells[0].cell, &report.cells[0]);
    EXPECT_EQ(at.cells[0].basis, bases[i]);
    EXPECT_EQ(at.cells[0].work.context_tokens, report.plan.contexts[i]);
    EXPECT_NEAR(1 - at.cells[0].work.hit_rate(), misses[i], 1e-9);
    EXPECT_NEAR(1 - at.cells[1].work.hit_rate(), 0.05, 1e-9);
  }
  EXPECT_EQ(NameOf(WorkBasis::kExtrapolated), "extrapolated");
}

TEST(SimulateReportTest, AContextThatNothingIsKnownOfIsAnError) {
  SimulateReport report = ReportOf("1M");
  report.cells = {CellOf({TotalsOf(4000, 100)})};
  EXPECT_EQ(PlaceCells(report).error().message,
            "--context must be 4,000, the one length that a.trace has (others "
            "follow from two, a factor of 2 apart), is 1,048,576");
  report.plan.contexts = {4096};
  EXPECT_TRUE(PlaceCells(report).ok());
  report.plan.contexts = {2000};
  EXPECT_EQ(PlaceCells(report).error().message,
            "--context must be at least 4,000, the shortest that a.trace has, "
            "is 2,000");
  ReplayTotals held = TotalsOf(4000, 0);
  held.slot_tokens = 10 * 2 * 3900;
  report.cells = {CellOf({held, TotalsOf(8000, 10)})};
  report.plan.contexts = {16384};
  EXPECT_EQ(PlaceCells(report).error().message,
            "--cache-budget 3x holds all but one of the lengths that a.trace "
            "has, of 8,000 at most: nothing follows for --context 16,384");
  report.cells = {CellOf({})};
  EXPECT_EQ(PlaceCells(report).error().code, ErrorCode::kInvalidArgument);
}

TEST(SimulateReportTest, TheLongestIsHeldAgainstTheShorterOnes) {
  const SimulateReport report = ReportOf("");
  EXPECT_FALSE(HoldOutLongest(
      report, CellOf({TotalsOf(4096, 100), TotalsOf(8192, 110)})));
  const auto held = HoldOutLongest(
      report,
      CellOf({TotalsOf(4096, 100), TotalsOf(8192, 110), TotalsOf(16384, 170)}));
  ASSERT_TRUE(held);
  EXPECT_NEAR(1 - held->recorded.hit_rate(), 0.17, 1e-9);
  EXPECT_NEAR(held->predicted.hit_rate(), 0.89 * 0.89 / 0.9, 1e-9);
  EXPECT_EQ(held->predicted.context_tokens, 16384);
}

}  // namespace
}  // namespace winnow
