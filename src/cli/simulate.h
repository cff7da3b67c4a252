// winnow simulate: a trace through slots that do not hold all of it.
#ifndef WINNOW_CLI_SIMULATE_H_
#define WINNOW_CLI_SIMULATE_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "trace/cost_model.h"
#include "trace/replay.h"

namespace winnow {

struct SimulateFlags {
  EngineFlags engine;  // of which only what is written says something
  std::string trace;
  std::string cache_budgets = "2x,3x,5x";
  std::string policies = "age,lru,lfu,belady";
  std::string slot_tokens = "32";
  std::string batches = "1,16,64,256";
  std::string contexts;  // empty: what was recorded
  std::string hint_level = "2x";
  std::string hint_source = "ranks";
  int least_hint_age = 1;
  double decay = 0.9;
  int warm_rows = 0;
  int max_rows = INT32_MAX;
  std::string first_slots;  // empty: there from the first row on
  int resize_rows = 0;
  bool ghosts = false;
  std::string shape = "llama-3.1-8b";
  std::string device_model = "h200";
  // What stands in place of the device model's, where above 0.
  DeviceModel rates;
  int num_gpus = 0;
};

// The flags, read: every cell is a cache budget, slots and a policy.
struct SimulatePlan {
  std::vector<std::string> budget_names;
  std::vector<CacheBudget> budgets;
  std::vector<SlotRule> rules;
  std::vector<int> slot_tokens;
  std::vector<int64_t> batches;
  std::vector<int64_t> contexts;  // of which it predicts; none: as recorded
  int hint_level = 0;             // in thousandths of the budget
  HintSource hint_source = HintSource::kNextRanks;
  std::optional<FirstSlots> first_slots = {};
  DeviceModel device;
  ModelSize model;
};

Command& AddSimulateCommand(Command& program, SimulateFlags* flags);
// Returns the exit status.
Result<int> RunSimulate(const SimulateFlags& flags);

Result<SimulatePlan> ParseSimulatePlan(const SimulateFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_H_
