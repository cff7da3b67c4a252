// BestBudgets: the best cache budget for a device, among a simulation's cells
// and resident pages.
#ifndef WINNOW_CLI_SIMULATE_SIMULATE_BEST_H_
#define WINNOW_CLI_SIMULATE_SIMULATE_BEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/simulate/simulate_report.h"

namespace winnow {

// A memory that is too small for a budget.
struct MemoryLack {
  std::string_view flag;  // "--host-gib"
  double limit_gib = 0, needed_gib = 0;
};

// The choice for one context and batch. Without a given batch, for as many
// requests as fit, up to kMostRequests.
struct BestBudget {
  double context_tokens = 0;
  WorkBasis basis = WorkBasis::kRecorded;
  bool most_tokens = false;  // the batch was free; maximises tokens a second
  int64_t batch = 0;         // 0: nothing fits, whatever the batch
  // "whole": resident, no slots. If nothing fits, the budget that lacks least.
  std::string cache_budget;
  std::string_view policy;             // empty for resident pages
  int slot_tokens = 0;                 // likewise
  PredictedStep cost = {};             // if it fits
  std::vector<MemoryLack> lacks = {};  // empty: it fits
};
inline constexpr int64_t kMostRequests = 256;

// The choices for each context: one for each batch of the plan, then one for
// the most tokens a second. Candidates are cells of rules that can be built
// (all but belady), and resident pages, which miss nothing. Of candidates that
// fit the memories, the least step time wins; of equals, the least device
// memory. If none fits, the candidate that exceeds a memory by the least factor
// wins.
std::vector<BestBudget> BestBudgets(const SimulatePlan& plan,
                                    const std::vector<PlacedCells>& placed);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_BEST_H_
