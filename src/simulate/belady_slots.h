// BeladySlots: what a rule that knows the future would have kept.
#ifndef WINNOW_SIMULATE_BELADY_SLOTS_H_
#define WINNOW_SIMULATE_BELADY_SLOTS_H_

#include <unordered_map>
#include <vector>

#include "simulate/slot_cache.h"

namespace winnow {

// After each step, of what was near and what was picked, the pieces whose next
// use comes first are near (L. A. Belady 1966; where a miss may pass a cache by
// and steps ask for sets, this is still the least number of misses). Ties stay
// where they are, then go to the lower piece.
class BeladySlots final : public SlotCache {
 public:
  explicit BeladySlots(std::span<const StepPieces> steps);

  void Resize(int num_slots) override;
  void Fetch(const StepPieces& step, SlotCounts& counts) override;
  std::span<const uint32_t> tags() const override { return tags_; }

 private:
  // By piece, the steps that pick it, the last one first: those that are over
  // have been taken away.
  std::unordered_map<uint32_t, std::vector<int64_t>> uses_;
  int64_t now_ = -1;
  std::vector<uint32_t> tags_;  // by slot; pieces stand in no order
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_BELADY_SLOTS_H_
