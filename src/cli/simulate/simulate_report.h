// SimulateReport: a simulation's results before printing.
#ifndef WINNOW_CLI_SIMULATE_SIMULATE_REPORT_H_
#define WINNOW_CLI_SIMULATE_SIMULATE_REPORT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/simulate/simulate.h"

namespace winnow {

// One cache budget, slot size and policy.
struct SimulateCell {
  std::string cache_budget;
  int slot_tokens = 0;
  SlotRule rule = SlotRule::kAge;
  std::map<int, ReplayTotals> by_length;  // by LengthClass

  ReplayTotals totals() const;
  std::string_view policy() const {
    return kSlotRuleNames[static_cast<size_t>(rule)];
  }
};

struct SimulateReport {
  std::string file;
  TraceHeader header;
  int64_t num_requests = 0;
  int64_t num_answered_right = 0;
  SimulatePlan plan;
  std::string shape;
  std::vector<SimulateCell> cells;
};

// The work of such a row in a model of the plan's shape. Shares of context and
// picks stay equal, and so does the number of dense layers.
RowWork WorkOf(const SimulateReport& report, int slot_tokens,
               const ReplayTotals& totals);

// The source of the work at a context.
enum class WorkBasis : uint8_t { kRecorded, kInterpolated, kExtrapolated };
std::string_view NameOf(WorkBasis basis);  // "recorded"

// A cell at one context.
struct PlacedCell {
  const SimulateCell* cell = nullptr;
  WorkBasis basis = WorkBasis::kRecorded;
  RowWork work;
};

// Bytes of a row's misses and hints, in the traced model.
double FetchedBytes(const SimulateReport& report, const PlacedCell& at);

// The cells at one of the plan's contexts, in order; without contexts, over all
// recorded rows. Fails with kInvalidArgument if a context is shorter than the
// recorded ones. Fails if it is longer and only one length counts
// (simulate/length_fit.h), or if no row counts.
struct PlacedCells {
  double context_tokens = 0;
  WorkBasis basis = WorkBasis::kRecorded;
  std::vector<PlacedCell> cells;
};
Result<std::vector<PlacedCells>> PlaceCells(const SimulateReport& report);

// The longest recorded length of a cell, and its prediction from the shorter
// ones. Nothing if fewer than two of these count.
struct HeldOut {
  RowWork recorded, predicted;
};
std::optional<HeldOut> HoldOutLongest(const SimulateReport& report,
                                      const SimulateCell& cell);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_REPORT_H_
