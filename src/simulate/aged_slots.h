// AgedSlots: the decisions of Fetch, made by the functions that Fetch calls.
#ifndef WINNOW_SIMULATE_AGED_SLOTS_H_
#define WINNOW_SIMULATE_AGED_SLOTS_H_

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/contract/replacement.h"
#include "simulate/slot_cache.h"

namespace winnow {

// After equal picks and hints, the same cache slots hold the same sub-pages,
// ages and counts as after Backend::Fetch (aged_slots_test.cc).
class AgedSlots final : public SlotCache {
 public:
  static constexpr int kNoHints = -1;
  // kNoHints: ignores a step's hints.
  explicit AgedSlots(int least_hint_age) : least_hint_age_(least_hint_age) {}

  void Resize(int num_slots) override;
  void Fetch(const StepPieces& step, SlotCounts& counts) override;
  std::span<const uint32_t> tags() const override { return tags_; }
  std::span<const uint8_t> ages() const { return ages_; }

 private:
  // The missing sub-pages of the current step.
  struct Missing {
    std::vector<uint32_t> pieces;
    std::unordered_set<uint32_t> known;

    bool Add(uint32_t piece, size_t most);
  };

  void LookUpPick(const WantedPiece& pick, SlotCounts& counts);
  void LookUpHint(const WantedPiece& hint);
  int32_t Place(const std::vector<uint32_t>& pieces, int least_rank,
                uint8_t age);
  void GrowOlder(const StepPieces& step);

  const int least_hint_age_;
  std::vector<uint32_t> tags_;  // by slot
  std::vector<uint8_t> ages_;
  std::vector<SlotUse> uses_;
  std::unordered_map<uint32_t, int32_t> slot_of_;
  std::unordered_set<uint32_t> wanted_;
  Missing picks_, hints_;
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_AGED_SLOTS_H_
