#include "simulate/aged_slots.h"

#include <algorithm>

namespace winnow {

bool AgedSlots::Missing::Add(uint32_t piece, size_t most) {
  if (pieces.size() >= most) return false;
  pieces.push_back(piece);
  known.insert(piece);
  return true;
}

void AgedSlots::Resize(int num_slots) {
  const auto size = static_cast<size_t>(num_slots);
  for (size_t slot = size; slot < tags_.size(); ++slot) {
    slot_of_.erase(tags_[slot]);
  }
  tags_.resize(size, kNoPiece);
  ages_.resize(size, kEmptyAge);
  uses_.resize(size);
}

void AgedSlots::LookUpPick(const WantedPiece& pick, SlotCounts& counts) {
  ++counts.fetch[kPicksCount];
  if (pick.page_is_whole) {
    ++counts.fetch[kHitsCount];
    return;
  }
  const auto found = slot_of_.find(pick.piece);
  if (wanted_.insert(pick.piece).second) {
    ++counts.wanted;
    counts.missed += found == slot_of_.end() ? 1 : 0;
  }
  if (found != slot_of_.end()) {
    ++counts.fetch[kHitsCount];
    const auto slot = static_cast<size_t>(found->second);
    if (uses_[slot] == SlotUse::kPicked) return;
    counts.fetch[kHintsUsedCount] += (ages_[slot] & kHintedBit) != 0 ? 1 : 0;
    ++counts.fetch[static_cast<size_t>(kHitsByAgeCount +
                                       (ages_[slot] & kAgeMask))];
    uses_[slot] = SlotUse::kPicked;
    return;
  }
  if (picks_.known.contains(pick.piece)) {
    ++counts.fetch[kHitsCount];
    return;
  }
  ++counts.fetch[kMissesCount];
  if (!picks_.Add(pick.piece, tags_.size())) ++counts.fetch[kUnplacedCount];
}

void AgedSlots::LookUpHint(const WantedPiece& hint) {
  if (hint.page_is_whole) return;
  const auto found = slot_of_.find(hint.piece);
  if (found != slot_of_.end()) {
    SlotUse& use = uses_[static_cast<size_t>(found->second)];
    if (use == SlotUse::kNone) use = SlotUse::kHinted;
    return;
  }
  if (picks_.known.contains(hint.piece) || hints_.known.contains(hint.piece)) {
    return;
  }
  hints_.Add(hint.piece, tags_.size());
}

// Returns how many found a slot.
int32_t AgedSlots::Place(const std::vector<uint32_t>& pieces, int least_rank,
                         uint8_t age) {
  if (pieces.empty()) return 0;
  std::vector<uint8_t> ranks(tags_.size());
  for (size_t slot = 0; slot < ranks.size(); ++slot) {
    ranks[slot] = EvictionRank(ages_[slot], uses_[slot]);
  }
  const VictimCut cut = CutVictims(
      CountRanks(ranks), static_cast<int32_t>(pieces.size()), least_rank);
  size_t next = 0;
  ForEachVictim(ranks, cut, [&](int32_t victim) {
    const auto slot = static_cast<size_t>(victim);
    slot_of_.erase(tags_[slot]);
    tags_[slot] = pieces[next++];
    slot_of_[tags_[slot]] = victim;
    ages_[slot] = age;
    uses_[slot] = SlotUse::kPicked;
  });
  return cut.num_victims;
}

void AgedSlots::GrowOlder(const StepPieces& step) {
  const AgeClock clock(step.first_position, step.end_position);
  for (size_t slot = 0; slot < ages_.size(); ++slot) {
    ages_[slot] =
        uses_[slot] == SlotUse::kPicked ? uint8_t{0} : clock.Next(ages_[slot]);
  }
}

void AgedSlots::Fetch(const StepPieces& step, SlotCounts& counts) {
  std::ranges::fill(uses_, SlotUse::kNone);
  wanted_.clear();
  picks_ = {};
  hints_ = {};
  for (const WantedPiece& pick : step.picks) LookUpPick(pick, counts);
  const bool has_hints = least_hint_age_ != kNoHints;
  if (has_hints) {
    for (const WantedPiece& hint : step.hints) LookUpHint(hint);
  }
  const auto num_missing = static_cast<int32_t>(picks_.pieces.size());
  const int32_t num_placed = Place(picks_.pieces, kHintedRank, 0);
  GrowOlder(step);
  const int32_t num_hinted =
      has_hints && least_hint_age_ != kNoHintFetch
          ? Place(hints_.pieces, kFirstAgeRank + least_hint_age_, kHintedBit)
          : 0;
  for (const uint8_t age : ages_) {
    ++counts.fetch[static_cast<size_t>(kSlotsByAgeCount + (age & kAgeMask))];
  }
  counts.fetch[kUnplacedCount] += num_missing - num_placed;
  counts.fetch[kHintsCount] += num_hinted;
  counts.fetch[kFetchedCount] += num_placed + num_hinted;
}

}  // namespace winnow
