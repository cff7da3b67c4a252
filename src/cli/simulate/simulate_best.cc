#include "cli/simulate/simulate_best.h"

#include <algorithm>
#include <limits>

namespace winnow {
namespace {

// What may be chosen at one context.
struct Candidate {
  std::string cache_budget;
  std::string_view policy;
  int slot_tokens = 0;
  RowWork work;
};

std::vector<Candidate> CandidatesOf(const PlacedCells& placed) {
  std::vector<Candidate> candidates;
  for (const PlacedCell& at : placed.cells) {
    if (at.cell->rule == SlotRule::kBelady) continue;
    candidates.push_back({.cache_budget = at.cell->cache_budget,
                          .policy = at.cell->policy(),
                          .slot_tokens = at.cell->slot_tokens,
                          .work = at.work});
  }
  if (!placed.cells.empty()) {
    candidates.push_back({.cache_budget = "whole",
                          .policy = {},
                          .work = WholeWork(placed.cells.front().work)});
  }
  return candidates;
}

std::vector<MemoryLack> LacksOf(const DeviceModel& device,
                                const MemoryNeed& need) {
  std::vector<MemoryLack> lacks;
  if (need.device_gib > device.memory_gib) {
    lacks.push_back({"--memory-gib", device.memory_gib, need.device_gib});
  }
  if (need.host_gib > device.host_gib) {
    lacks.push_back({"--host-gib", device.host_gib, need.host_gib});
  }
  return lacks;
}

// How many times a memory it would take.
double Excess(const DeviceModel& device, const MemoryNeed& need) {
  return std::max(need.device_gib / device.memory_gib,
                  need.host_gib / device.host_gib);
}

class BestSearch {
 public:
  BestSearch(const SimulatePlan& plan, const PlacedCells& placed)
      : plan_(plan), placed_(placed), candidates_(CandidatesOf(placed)) {}

  BestBudget Of(int64_t batch) const {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (best == nullptr || IsBetter(candidate, *best, batch)) {
        best = &candidate;
      }
    }
    return Describe(*best, batch);
  }
  BestBudget MostTokens() const {
    const Candidate* best = nullptr;
    int64_t best_batch = 0;
    double most = 0;
    for (const Candidate& candidate : candidates_) {
      const int64_t batch =
          std::min(kMostRequests,
                   RequestsThatFit(plan_.device, plan_.model, candidate.work));
      if (batch == 0) continue;
      const double rate = CostOf(candidate, batch).tokens_s;
      if (rate <= most) continue;
      most = rate;
      best = &candidate;
      best_batch = batch;
    }
    BestBudget found = best == nullptr ? Of(1) : Describe(*best, best_batch);
    found.most_tokens = true;
    if (best == nullptr) found.batch = 0;
    return found;
  }
  bool empty() const { return candidates_.empty(); }

 private:
  MemoryNeed Need(const Candidate& candidate, int64_t batch) const {
    return NeedOf(plan_.device, plan_.model, candidate.work, batch);
  }
  PredictedStep CostOf(const Candidate& candidate, int64_t batch) const {
    return PredictStep(plan_.device, plan_.model, candidate.work, batch);
  }
  bool IsBetter(const Candidate& a, const Candidate& b, int64_t batch) const {
    const MemoryNeed of_a = Need(a, batch), of_b = Need(b, batch);
    const bool a_fits = of_a.fits(plan_.device);
    if (a_fits != of_b.fits(plan_.device)) return a_fits;
    if (!a_fits) return Excess(plan_.device, of_a) < Excess(plan_.device, of_b);
    const double ms = CostOf(a, batch).tpot_ms,
                 other = CostOf(b, batch).tpot_ms;
    return ms != other ? ms < other : of_a.device_gib < of_b.device_gib;
  }
  BestBudget Describe(const Candidate& candidate, int64_t batch) const {
    BestBudget best = {.context_tokens = placed_.context_tokens,
                       .basis = placed_.basis,
                       .batch = batch,
                       .cache_budget = candidate.cache_budget,
                       .policy = candidate.policy,
                       .slot_tokens = candidate.slot_tokens};
    best.lacks = LacksOf(plan_.device, Need(candidate, batch));
    if (best.lacks.empty()) best.cost = CostOf(candidate, batch);
    return best;
  }

  const SimulatePlan& plan_;
  const PlacedCells& placed_;
  const std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<BestBudget> BestBudgets(const SimulatePlan& plan,
                                    const std::vector<PlacedCells>& placed) {
  std::vector<BestBudget> best;
  for (const PlacedCells& cells : placed) {
    const BestSearch search(plan, cells);
    if (search.empty()) continue;
    for (const int64_t batch : plan.batches) best.push_back(search.Of(batch));
    best.push_back(search.MostTokens());
  }
  return best;
}

}  // namespace winnow
