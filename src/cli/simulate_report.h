// What a simulation found, as a table and as JSON.
#ifndef WINNOW_CLI_SIMULATE_TABLE_H_
#define WINNOW_CLI_SIMULATE_TABLE_H_

#include <string>
#include <vector>

#include "cli/simulate.h"

namespace winnow {

// One cache budget, slot size and policy.
struct SimulateCell {
  std::string cache_budget;
  int slot_tokens = 0;
  SlotRule rule = SlotRule::kAge;
  ReplayTotals totals;
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

// What a row of the cell does in a model of the plan's shape: the same shares
// of its context and picks; its layers that do not choose are as many as the
// trace's.
RowWork WorkOf(const SimulateReport& report, const SimulateCell& cell);

std::string SimulateTable(const SimulateReport& report);
std::string SimulateJson(const SimulateReport& report);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_TABLE_H_
