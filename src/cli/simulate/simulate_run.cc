#include <algorithm>

#include "cli/command/output.h"
#include "cli/simulate/simulate.h"
#include "cli/simulate/simulate_best.h"
#include "cli/simulate/simulate_json.h"
#include "cli/simulate/simulate_report.h"
#include "cli/simulate/simulate_table.h"
#include "cli/task/written_file.h"
#include "simulate/length_fit.h"
#include "simulate/trace_file.h"

namespace winnow {
namespace {

std::vector<SimulateCell> CellsOf(const SimulatePlan& plan) {
  std::vector<SimulateCell> cells;
  for (const int slot_tokens : plan.slot_tokens) {
    for (const std::string& budget : plan.budget_names) {
      for (const SlotRule rule : plan.rules) {
        cells.push_back({.cache_budget = budget,
                         .slot_tokens = slot_tokens,
                         .rule = rule,
                         .by_length = {}});
      }
    }
  }
  return cells;
}

ReplayOptions OptionsOf(const SimulateFlags& flags, const SimulatePlan& plan,
                        const TraceHeader& header, size_t cell) {
  const size_t num_rules = plan.rules.size();
  const size_t num_budgets = plan.budgets.size();
  return {.rule = {.rule = plan.rules[cell % num_rules],
                   .least_hint_age = plan.least_hint_age,
                   .num_levels = static_cast<int>(header.levels.size()),
                   .decay = plan.decay},
          .budget = plan.budgets[cell / num_rules % num_budgets],
          .warm_rows = flags.warm_rows,
          .resize_rows = flags.resize_rows,
          .ghosts = flags.ghosts,
          .first_slots = plan.first_slots,
          .max_rows = flags.max_rows};
}

// Cells of one slot size stand together.
void ReplayCells(const SimulateFlags& flags, int hint_level,
                 const TraceRequest& request, SimulateReport& report) {
  const SimulatePlan& plan = report.plan;
  const size_t num_each = plan.rules.size() * plan.budgets.size();
  for (size_t slots = 0; slots < plan.slot_tokens.size(); ++slots) {
    const ReplayInput input(report.header, request,
                            {.slot_tokens = plan.slot_tokens[slots],
                             .hint_level = hint_level,
                             .hint_source = plan.hint_source});
    for (size_t i = slots * num_each; i < (slots + 1) * num_each; ++i) {
      const ReplayTotals totals =
          Replay(input, OptionsOf(flags, plan, report.header, i));
      if (totals.num_rows == 0) continue;
      const double context = static_cast<double>(totals.context_tokens) /
                             static_cast<double>(totals.num_rows);
      report.cells[i].by_length[LengthClass(context)].Add(totals);
    }
  }
}

// Whether any row counts: what is predicted of none is of nothing.
Status CheckRowsCount(const SimulateFlags& flags, const SimulateReport& report,
                      int64_t longest) {
  if (report.cells[0].totals().num_rows > 0) return Ok{};
  if (longest == 0) {
    return MakeError(ErrorCode::kCorrupt, "{}: no request has a row",
                     flags.trace);
  }
  if (flags.warm_rows >= longest) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--warm-rows must be below {}, the rows of the longest "
                     "request of {}, is {}",
                     longest, flags.trace, flags.warm_rows);
  }
  // Rows that were recorded in one step count together or not at all.
  if (!flags.first_slots.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--first-slots leaves out each request's first step, and "
                     "no other has rows that count; the longest request of {} "
                     "has {}, --warm-rows is {}",
                     flags.trace, longest, flags.warm_rows);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "--max-rows must be as many as the first step has that "
                   "counts; the longest request of {} has {} rows, "
                   "--warm-rows is {}, --max-rows {}",
                   flags.trace, longest, flags.warm_rows, flags.max_rows);
}

}  // namespace

Result<int> RunSimulate(const SimulateFlags& flags) {
  SimulateReport report;
  ASSIGN_OR_RETURN(report.plan, ParseSimulatePlan(flags));
  RETURN_IF_ERROR(CheckIsNoTaskFile("--json", flags.engine.json_file));
  RETURN_IF_ERROR(
      CheckAreTwoFiles("--json", flags.engine.json_file, "TRACE", flags.trace));
  RETURN_IF_ERROR(CheckJsonFile(flags.engine));
  ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(flags.trace));
  report.file = flags.trace;
  report.header = reader.header();
  report.shape = flags.shape;
  report.cells = CellsOf(report.plan);
  ASSIGN_OR_RETURN(const int hint_level,
                   HintLevelOf(report.plan, flags, report.header));
  int64_t longest = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<TraceRequest> request, reader.Next());
    if (!request) break;
    ++report.num_requests;
    report.num_answered_right += request->answered_right ? 1 : 0;
    longest = std::max(longest, request->num_rows());
    ReplayCells(flags, hint_level, *request, report);
  }
  RETURN_IF_ERROR(CheckRowsCount(flags, report, longest));
  ASSIGN_OR_RETURN(const std::vector<PlacedCells> placed, PlaceCells(report));
  const std::vector<BestBudget> best = BestBudgets(report.plan, placed);
  const bool to_file = !flags.engine.json_file.empty();
  if (flags.engine.json) {
    RETURN_IF_ERROR(
        WriteJson(flags.engine, SimulateJson(report, placed, best) + "\n"));
  }
  if (!flags.engine.json || to_file) Print(SimulateTable(report, placed, best));
  return 0;
}

}  // namespace winnow
