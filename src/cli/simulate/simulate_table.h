// What a simulation found, as a table.
#ifndef WINNOW_CLI_SIMULATE_SIMULATE_TABLE_H_
#define WINNOW_CLI_SIMULATE_SIMULATE_TABLE_H_

#include <string>
#include <vector>

#include "cli/simulate/simulate_best.h"
#include "cli/simulate/simulate_report.h"

namespace winnow {

// Cells by context; what the rule of longer contexts makes of the longest
// recorded one; the best budgets. What is extrapolated says so.
std::string SimulateTable(const SimulateReport& report,
                          const std::vector<PlacedCells>& placed,
                          const std::vector<BestBudget>& best);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_TABLE_H_
