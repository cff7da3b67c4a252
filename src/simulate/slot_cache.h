// SlotCache: the simulated cache slots of one request, layer and KV head, with
// a replacement rule.
#ifndef WINNOW_SIMULATE_SLOT_CACHE_H_
#define WINNOW_SIMULATE_SLOT_CACHE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/contract/slot_table.h"
#include "simulate/step_pieces.h"

namespace winnow {

// The counts of Fetch (backend/contract/slot_table.h), by FetchCount; exact
// rules fill in kFetchedCount alone. `wanted` and `missed` count the distinct
// sub-pages of offloaded pages that a step picks, and those that no slot holds.
// (Fetch counts a sub-page once for each list that picks it, and repeats a miss
// that found no slot.)
struct SlotCounts {
  std::array<int64_t, kNumFetchCounts> fetch = {};
  int64_t wanted = 0;
  int64_t missed = 0;

  int64_t of(FetchCount count) const {
    return fetch[static_cast<size_t>(count)];
  }
  void Add(const SlotCounts& other);
};

// The rules. The first four are Fetch's own decisions
// (backend/contract/replacement.h):
//   kAge         without hints
//   kKeep        hints that are not fetched: what is near of them is
//                overwritten last
//   kHold        the same, but fetched where a slot is empty
//   kHint        hints that may take the place of slots of an age
// The others are exact, and know no hints. Victims are
//   kLru, kLfu   least recently, or least often since they came, used
//   kLevel       those of the highest level in this step's lists, what no list
//                names first; among equals the least recently used
//   kMeanLevel   the same of a decayed mean over the steps
//   kScore       those of the least score in this step's lists, as a share of
//                its list's range, what no list names first; among equals the
//                least recently used
//   kMeanScore   the same of a decayed mean over the steps
//   kDecayedUse  those of the least decayed sum of uses (LRFU, Lee et al. 2001)
//   kBelady      those whose next use is farthest: it knows what comes, and no
//                rule that fetches what is missed alone has fewer misses. What
//                is picked need not take a slot.
enum class SlotRule : uint8_t {
  kAge,
  kKeep,
  kHold,
  kHint,
  kLru,
  kLfu,
  kLevel,
  kMeanLevel,
  kScore,
  kMeanScore,
  kDecayedUse,
  kBelady
};
inline constexpr std::array<std::string_view, 12> kSlotRuleNames = {
    "age",   "keep",       "hold",  "hint",       "lru",         "lfu",
    "level", "mean-level", "score", "mean-score", "decayed-use", "belady"};

struct SlotRuleOptions {
  SlotRule rule = SlotRule::kAge;
  int least_hint_age = 1;  // for kHint
  int num_levels = 1;      // of the trace
  // The factor of the past in each step, for kMeanLevel, kMeanScore and
  // kDecayedUse.
  double decay = 0.9;
};

class SlotCache {
 public:
  virtual ~SlotCache() = default;
  // Adds empty slots, or removes the last ones with their content.
  virtual void Resize(int num_slots) = 0;
  // Simulates the next step.
  virtual void Fetch(const StepPieces& step, SlotCounts& counts) = 0;
  // By slot; kNoPiece: empty.
  virtual std::span<const uint32_t> tags() const = 0;
};

// `steps` are all future steps, which kBelady alone reads. REQUIRES: they
// outlive the cache.
std::unique_ptr<SlotCache> MakeSlotCache(const SlotRuleOptions& options,
                                         std::span<const StepPieces> steps);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_SLOT_CACHE_H_
