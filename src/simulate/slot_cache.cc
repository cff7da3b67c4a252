#include "simulate/slot_cache.h"

#include "simulate/aged_slots.h"
#include "simulate/belady_slots.h"
#include "simulate/valued_slots.h"

namespace winnow {

void SlotCounts::Add(const SlotCounts& other) {
  for (size_t i = 0; i < fetch.size(); ++i) fetch[i] += other.fetch[i];
  wanted += other.wanted;
  missed += other.missed;
}

std::unique_ptr<SlotCache> MakeSlotCache(const SlotRuleOptions& options,
                                         std::span<const StepPieces> steps) {
  switch (options.rule) {
    case SlotRule::kAge:
      return std::make_unique<AgedSlots>(AgedSlots::kNoHints);
    case SlotRule::kKeep:
      return std::make_unique<AgedSlots>(kNoHintFetch);
    case SlotRule::kHold:
      return std::make_unique<AgedSlots>(kEmptyAge);
    case SlotRule::kHint:
      return std::make_unique<AgedSlots>(options.least_hint_age);
    case SlotRule::kBelady:
      return std::make_unique<BeladySlots>(steps);
    default:
      return std::make_unique<ValuedSlots>(options);
  }
}

}  // namespace winnow
