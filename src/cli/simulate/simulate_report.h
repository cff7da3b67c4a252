// What a simulation found, before it is printed.
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

// What a row of such totals does in a model of the plan's shape: the same
// shares of its context and picks; its layers that do not choose are as many as
// the trace's.
RowWork WorkOf(const SimulateReport& report, int slot_tokens,
               const ReplayTotals& totals);

// Where the work at a context comes from.
enum class WorkBasis : uint8_t { kRecorded, kInterpolated, kExtrapolated };
std::string_view NameOf(WorkBasis basis);  // "recorded"

// A cell at one context.
struct PlacedCell {
  const SimulateCell* cell = nullptr;
  WorkBasis basis = WorkBasis::kRecorded;
  RowWork work;
};

// Misses and hints of a row, of the traced model.
double FetchedBytes(const SimulateReport& report, const PlacedCell& at);

// Cells at one of the plan's contexts, in their order, or, where it names none,
// over all that was recorded. Fails with kInvalidArgument for a context that is
// shorter than what was recorded, or is longer where one length alone counts
// (simulate/length_fit.h), or where no row counts.
struct PlacedCells {
  double context_tokens = 0;
  WorkBasis basis = WorkBasis::kRecorded;
  std::vector<PlacedCell> cells;
};
Result<std::vector<PlacedCells>> PlaceCells(const SimulateReport& report);

// The longest recorded length of a cell, and what the rule makes of the
// shorter ones there; nothing where fewer than two of these count.
struct HeldOut {
  RowWork recorded, predicted;
};
std::optional<HeldOut> HoldOutLongest(const SimulateReport& report,
                                      const SimulateCell& cell);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_REPORT_H_
