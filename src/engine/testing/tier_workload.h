// What the all-resident oracle asks of an engine: requests, the little room
// that there is for them, and what befalls its disk. For tests.
#ifndef WINNOW_ENGINE_TESTING_TIER_WORKLOAD_H_
#define WINNOW_ENGINE_TESTING_TIER_WORKLOAD_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/faulty_folder.h"
#include "engine/engine_options.h"
#include "engine/request/request.h"
#include "engine/testing/tier_models.h"

namespace winnow {

enum class DiskTrouble : uint8_t {
  kNone,
  kReadErrors,
  kWriteErrors,
  kShortTransfers,
  kFull,         // now and then
  kReadOnly,     // now and then, and when the next engine opens it
  kFlippedBits,  // while an engine uses it, and between two
  kDeaths,       // of the process, in the middle of anything
  kPowerCuts,    // as kDeaths, and what was not flushed may be gone
};
inline constexpr int kNumDiskTroubles = 9;

// While it is there.
FolderFaults FaultsOf(DiskTrouble trouble);
inline bool ComesAndGoes(DiskTrouble trouble) {
  return trouble == DiskTrouble::kFull || trouble == DiskTrouble::kReadOnly;
}
inline bool EndsProcesses(DiskTrouble trouble) {
  return trouble == DiskTrouble::kDeaths || trouble == DiskTrouble::kPowerCuts;
}

// One request, and when its reader has enough: at that token of its answer, as
// a stop string ends it; 0: never.
struct TierRequest {
  Request request;
  bool on_prefix = false;  // begins with the workload's, and shares its pages
  int stops_at = 0;
};

struct TierWorkload {
  EngineOptions options;
  std::vector<TierRequest> requests;
  std::optional<Prefix> prefix;
  int mean_gap = 1;             // steps between two arrivals
  bool forces = false;          // requests to are preempted at any time
  bool demotes = false;         // and to go on with slots
  bool expects_little = false;  // as the first ones ended soon
  bool is_deep = false;         // the deep model's: some exceed the pool
  // On a disk that the engine before has left; 0: there is none.
  int64_t num_disk_slots = 0;
  DiskTrouble trouble = DiskTrouble::kNone;
};

// The selectors that requests have, by Request::selector: each kind that there
// is. Quest and ArkVale read their first two layers densely by themselves,
// which are all that the shallow model has.
inline constexpr std::array<std::string_view, 14> kTierSelectors = {
    "mean:budget=16,block=8,recent=8",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=60",
    "moba:block=32,budget=32",
    "tidal:budget=16,select_layers=0",
    "snapkv:budget=20,window=6,kernel=3",
    "shadowkv:budget=16,block=4,outliers=12,recent=4",
    "clusterkv:budget=24,segment=32,cluster=4,sink=4,dense_layers=none",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8",
    "seerattention-r:budget=16,block=8",
    "window:sink=8,recent=24",
    "mean:budget=16,block=16,recent=8,dense_layers=0",
    "oracle:budget=24,block=8,sink=0,recent=8",
    "quest:budget=24,block=8,dense_layers=none",
    "arkvale:budget=48,block=16,sink=16,recent=16,dense_layers=none"};

struct TierWorkloadKind {
  bool is_deep = false;
  // All pages stay whole and there is no disk: what lets steps be launched
  // ahead.
  bool is_whole = false;
  // On a disk that this befalls; none: as it is drawn.
  std::optional<DiskTrouble> trouble = {};
};

// The same for the same seed.
TierWorkload DrawTierWorkload(const TierModels& models,
                              const TierWorkloadKind& kind, uint64_t seed);

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_TIER_WORKLOAD_H_
