// SimulateTable: a simulation's results as a table.
#ifndef WINNOW_CLI_SIMULATE_SIMULATE_TABLE_H_
#define WINNOW_CLI_SIMULATE_SIMULATE_TABLE_H_

#include <string>
#include <vector>

#include "cli/simulate/simulate_best.h"
#include "cli/simulate/simulate_report.h"

namespace winnow {

// Cells by context, the prediction of the longest recorded length, and the best
// budgets. Extrapolated values are marked.
std::string SimulateTable(const SimulateReport& report,
                          const std::vector<PlacedCells>& placed,
                          const std::vector<BestBudget>& best);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_TABLE_H_
