// ValuedSlots: replacement rules that give every slot an exact value.
#ifndef WINNOW_SIMULATE_VALUED_SLOTS_H_
#define WINNOW_SIMULATE_VALUED_SLOTS_H_

#include <unordered_map>
#include <vector>

#include "simulate/slot_cache.h"

namespace winnow {

// Misses replace the slots of least value that were not picked, empty ones
// first. Ties go to the lowest slot. A miss without a slot left gets none.
class ValuedSlots final : public SlotCache {
 public:
  explicit ValuedSlots(const SlotRuleOptions& options) : options_(options) {}

  void Resize(int num_slots) override;
  void Fetch(const StepPieces& step, SlotCounts& counts) override;
  std::span<const uint32_t> tags() const override { return tags_; }

 private:
  struct State {
    int64_t last_use = 0;    // by step
    int64_t num_uses = 0;    // since the sub-page came
    int level = 0;           // in this step's lists
    double score_share = 0;  // likewise
    double decayed = 0;      // mean of levels, or sum of uses
  };

  void Rank(const StepPieces& step);
  // The amount that this step adds to State::decayed.
  double Added(size_t slot) const;
  // True if `a` is replaced before `b`.
  bool GoesBefore(const State& a, const State& b) const;
  void Place(const std::vector<uint32_t>& missing);
  // The worth of a level: 1 at the highest rank, 0 if no list names it.
  double Worth(int level) const {
    return 1.0 - static_cast<double>(level) / options_.num_levels;
  }

  const SlotRuleOptions options_;
  int64_t now_ = 0;
  std::vector<uint32_t> tags_;  // by slot
  std::vector<State> states_;
  std::vector<bool> picked_;  // in this step
  std::unordered_map<uint32_t, size_t> slot_of_;
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_VALUED_SLOTS_H_
