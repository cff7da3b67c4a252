// SimulateJson: a simulation's results as JSON (docs/contract.md).
#ifndef WINNOW_CLI_SIMULATE_SIMULATE_JSON_H_
#define WINNOW_CLI_SIMULATE_SIMULATE_JSON_H_

#include <string>
#include <vector>

#include "cli/simulate/simulate_best.h"
#include "cli/simulate/simulate_report.h"

namespace winnow {

std::string SimulateJson(const SimulateReport& report,
                         const std::vector<PlacedCells>& placed,
                         const std::vector<BestBudget>& best);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_JSON_H_
