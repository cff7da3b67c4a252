// BeladySlots: the exact replacement rule that knows the future.
#ifndef WINNOW_SIMULATE_BELADY_SLOTS_H_
#define WINNOW_SIMULATE_BELADY_SLOTS_H_

#include <unordered_map>
#include <vector>

#include "simulate/slot_cache.h"

namespace winnow {

// After each step keeps, of all cached and picked sub-pages, the ones with the
// nearest next use (L. A. Belady 1966). Steps pick sets and a miss may bypass
// the cache; the number of misses is still minimal. On ties, cached sub-pages
// stay, then the lower one goes first.
class BeladySlots final : public SlotCache {
 public:
  explicit BeladySlots(std::span<const StepPieces> steps);

  void Resize(int num_slots) override;
  void Fetch(const StepPieces& step, SlotCounts& counts) override;
  std::span<const uint32_t> tags() const override { return tags_; }

 private:
  // By sub-page, the future steps that pick it, the last one first.
  std::unordered_map<uint32_t, std::vector<int64_t>> uses_;
  int64_t now_ = -1;
  std::vector<uint32_t> tags_;  // by slot; sub-pages in no order
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_BELADY_SLOTS_H_
