// winnow simulate: replays a trace through cache slots that do not hold all of
// it.
#ifndef WINNOW_CLI_SIMULATE_SIMULATE_H_
#define WINNOW_CLI_SIMULATE_SIMULATE_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/command/engine_flags.h"
#include "simulate/cost_model.h"
#include "simulate/replay.h"

namespace winnow {

// Rates that replace those of the device model.
struct GivenRates {
  std::optional<double> memory_gb_s, tflop_s, link_gb_s, disk_gb_s;
  std::optional<double> layer_us, memory_gib, host_gib;
  std::optional<double> all_reduce_gb_s, all_reduce_us;
  int num_gpus = 0;  // 0: not set
};

// Empty or none: not set. A set flag without effect is refused.
struct SimulateFlags {
  EngineFlags engine;  // only output flags matter
  std::string trace;
  std::string cache_budgets = "2x,3x,5x";
  std::string policies = "age,lru,lfu,belady";
  std::string slot_tokens = "32";
  std::string batches = "1,16,64,256";
  std::string contexts;     // empty: as recorded
  std::string hint_level;   // empty: up to 2x
  std::string hint_source;  // empty: ranks
  std::optional<int> least_hint_age;
  std::optional<double> decay;
  int warm_rows = 0;
  int max_rows = INT32_MAX;
  std::string first_slots;  // empty: slots exist from the first row on
  int resize_rows = 0;
  bool ghosts = false;
  std::string shape = "llama-3.1-8b";
  std::string device_model = "h200";
  GivenRates rates;
};

// The parsed flags. A cell is a cache budget, a slot size and a policy.
struct SimulatePlan {
  std::vector<std::string> budget_names;
  std::vector<CacheBudget> budgets;
  std::vector<SlotRule> rules;
  std::vector<int> slot_tokens;
  std::vector<int64_t> batches;
  std::vector<int64_t> contexts;  // for predictions; empty: as recorded
  // In thousandths of the budget; none: 2x, or the trace's greatest level below
  // it.
  std::optional<int> hint_level = {};
  HintSource hint_source = HintSource::kNextRanks;
  int least_hint_age = 1;
  double decay = 0.9;
  std::optional<FirstSlots> first_slots = {};
  DeviceModel device;
  ModelSize model;
};

Command& AddSimulateCommand(Command& program, SimulateFlags* flags);
// Returns the exit status.
Result<int> RunSimulate(const SimulateFlags& flags);

Result<SimulatePlan> ParseSimulatePlan(const SimulateFlags& flags);

// The index of the greatest level whose ranks are hints. Fails if the requested
// level exceeds all levels of the trace.
Result<int> HintLevelOf(const SimulatePlan& plan, const SimulateFlags& flags,
                        const TraceHeader& header);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_SIMULATE_H_
