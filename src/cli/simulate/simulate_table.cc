#include "cli/simulate/simulate_table.h"

#include "base/size_text.h"
#include "cli/command/progress.h"

namespace winnow {
namespace {

std::string HeadOf(const SimulateReport& report, const PlacedCells& placed) {
  std::string head;
  if (!report.plan.contexts.empty()) {
    head =
        fmt::format("\nContext {} tokens, {}\n",
                    FormatTokens(placed.context_tokens), NameOf(placed.basis));
  }
  head += fmt::format("{:>7} {:>6} {:>6} {:<12} {:>7} {:>12} {:>5}", "cache",
                      "tokens", "slot", "policy", "hits", "fetched", "fit");
  for (const int64_t batch : report.plan.batches) {
    head += fmt::format(" {:>10}", fmt::format("TPOT@{}", batch));
  }
  return head + "\n";
}

std::string CellLine(const SimulateReport& report, const PlacedCell& at) {
  const SimulatePlan& plan = report.plan;
  std::string line = fmt::format(
      "{:>7} {:>6.0f} {:>6} {:<12} {:>6.2f}% {:>12} {:>5}",
      at.cell->cache_budget, at.work.slot_tokens, at.cell->slot_tokens,
      at.cell->policy(), 100 * at.work.hit_rate(),
      FormatBytes(static_cast<int64_t>(FetchedBytes(report, at))),
      RequestsThatFit(plan.device, plan.model, at.work));
  for (const int64_t batch : plan.batches) {
    const PredictedStep cost =
        PredictStep(plan.device, plan.model, at.work, batch);
    line += fmt::format(" {:>7.2f} ms", cost.tpot_ms);
  }
  return line + "\n";
}

std::string HeldOutLines(const SimulateReport& report) {
  std::string lines;
  if (report.plan.contexts.empty()) return lines;
  for (const SimulateCell& cell : report.cells) {
    const std::optional<HeldOut> held = HoldOutLongest(report, cell);
    if (!held) continue;
    if (lines.empty()) {
      lines = fmt::format(
          "\nThe rule on {} tokens, from the shorter lengths alone\n{:>7} "
          "{:>6} {:<12} {:>9} {:>9}\n",
          FormatTokens(held->recorded.context_tokens), "cache", "slot",
          "policy", "predicted", "recorded");
    }
    lines += fmt::format("{:>7} {:>6} {:<12} {:>8.2f}% {:>8.2f}%\n",
                         cell.cache_budget, cell.slot_tokens, cell.policy(),
                         100 * held->predicted.hit_rate(),
                         100 * held->recorded.hit_rate());
  }
  return lines;
}

std::string LackText(const BestBudget& best) {
  std::string text =
      best.batch == 0
          ? fmt::format(
                "nothing fits at any batch; one request with {} lacks "
                "least:",
                best.cache_budget)
          : fmt::format("nothing fits; least lacks {}:", best.cache_budget);
  for (const MemoryLack& lack : best.lacks) {
    text += fmt::format(" {} is {:.4g}, must be {:.4g}", lack.flag,
                        lack.limit_gib, lack.needed_gib);
    if (&lack != &best.lacks.back()) text += ",";
  }
  return text;
}

std::string BatchOf(const BestBudget& best) {
  if (best.batch == 0) return "+";
  return fmt::format("{}{}", best.most_tokens ? "+" : "", best.batch);
}

std::string BestLine(const BestBudget& best) {
  std::string line =
      fmt::format("{:>12} {:>6} ",
                  FormatTokens(best.context_tokens) +
                      (best.basis == WorkBasis::kExtrapolated ? "*" : ""),
                  BatchOf(best));
  if (!best.lacks.empty()) return line + LackText(best) + "\n";
  const bool is_whole = best.slot_tokens == 0;
  return line + fmt::format("{:>6} {:>5} {:<12} {:>8.2f} ms {:>9.0f}\n",
                            best.cache_budget,
                            is_whole ? "-" : std::to_string(best.slot_tokens),
                            is_whole ? "-" : best.policy, best.cost.tpot_ms,
                            best.cost.tokens_s);
}

std::string BestLines(const std::vector<BestBudget>& best) {
  if (best.empty()) return {};
  std::string lines = fmt::format(
      "\nBest budgets (+: the batch of most tokens/s, of {} at most; whole: no "
      "slots; *: extrapolated)\n{:>12} {:>6} {:>6} {:>5} {:<12} {:>11} {:>9}\n",
      kMostRequests, "context", "batch", "cache", "slot", "policy", "TPOT",
      "tokens/s");
  for (const BestBudget& of : best) lines += BestLine(of);
  return lines;
}

}  // namespace

std::string SimulateTable(const SimulateReport& report,
                          const std::vector<PlacedCells>& placed,
                          const std::vector<BestBudget>& best) {
  std::string table = fmt::format(
      "{}: {} with {}, {} questions, {} answered right\nTimes are predictions: "
      "{} on a model of {}\n",
      report.file, report.header.model, report.header.select,
      FormatCount(report.num_requests), FormatCount(report.num_answered_right),
      report.shape, report.plan.device.name);
  for (const PlacedCells& cells : placed) {
    table += HeadOf(report, cells);
    for (const PlacedCell& at : cells.cells) table += CellLine(report, at);
  }
  return table + HeldOutLines(report) + BestLines(best);
}

}  // namespace winnow
