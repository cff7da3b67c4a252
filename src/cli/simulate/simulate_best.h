// The best cache budget for a card: of a simulation's cells and of whole pages.
#ifndef WINNOW_CLI_SIMULATE_SIMULATE_BEST_H_
#define WINNOW_CLI_SIMULATE_SIMULATE_BEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/simulate/simulate_report.h"

namespace winnow {

// What a memory would have to be for a budget to fit.
struct MemoryLack {
  std::string_view flag;  // "--host-gib"
  double limit_gib = 0, needed_gib = 0;
};

// One context, and a batch, or as many requests as fit, up to kMostRequests.
struct BestBudget {
  double context_tokens = 0;
  WorkBasis basis = WorkBasis::kRecorded;
  bool most_tokens = false;  // the batch was free: the most tokens a second
  int64_t batch = 0;         // 0: nothing fits whatever the batch
  std::string cache_budget;  // "whole": no slots. Of what lacks least, where
                             // nothing fits
  std::string_view policy;   // empty with whole pages
  int slot_tokens = 0;       // likewise
  PredictedStep cost = {};   // where it fits
  std::vector<MemoryLack> lacks = {};  // empty: it fits
};
inline constexpr int64_t kMostRequests = 256;

// Of each context, each batch of the plan and then the most tokens a second.
// Among cells of rules that can be built (all but belady) and whole pages, in
// which nothing is missed: those that fit the memories, and of these the one
// with the least time a step; among equals the one that needs less of the
// device. Where none fits, the one that exceeds a memory by the least factor.
std::vector<BestBudget> BestBudgets(const SimulatePlan& plan,
                                    const std::vector<PlacedCells>& placed);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_BEST_H_
