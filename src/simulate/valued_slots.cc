#include "simulate/valued_slots.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"

namespace winnow {

void ValuedSlots::Resize(int num_slots) {
  const auto size = static_cast<size_t>(num_slots);
  for (size_t slot = size; slot < tags_.size(); ++slot) {
    slot_of_.erase(tags_[slot]);
  }
  tags_.resize(size, kNoPiece);
  states_.resize(size);
  picked_.resize(size);
}

bool ValuedSlots::GoesBefore(const State& a, const State& b) const {
  switch (options_.rule) {
    case SlotRule::kLru:
      break;
    case SlotRule::kLfu:
      if (a.num_uses != b.num_uses) return a.num_uses < b.num_uses;
      break;
    case SlotRule::kLevel:
      if (a.level != b.level) return a.level > b.level;
      break;
    case SlotRule::kScore:
      if (a.score_share != b.score_share) return a.score_share < b.score_share;
      break;
    case SlotRule::kMeanLevel:
    case SlotRule::kMeanScore:
    case SlotRule::kDecayedUse:
      if (a.decayed != b.decayed) return a.decayed < b.decayed;
      break;
    default:
      CHECK(false, "rule={}", static_cast<int>(options_.rule));
  }
  return a.last_use < b.last_use;
}

// Where the pieces that are near stand in this step's lists.
void ValuedSlots::Rank(const StepPieces& step) {
  for (State& state : states_) {
    state.level = options_.num_levels;
    state.score_share = 0;
  }
  for (const RankedPiece& ranked : step.ranked) {
    const auto found = slot_of_.find(ranked.piece);
    if (found == slot_of_.end()) continue;
    states_[found->second].level = ranked.level;
    states_[found->second].score_share = ranked.score_share;
  }
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    State& state = states_[slot];
    state.decayed = options_.decay * state.decayed + Added(slot);
  }
}

double ValuedSlots::Added(size_t slot) const {
  const State& state = states_[slot];
  switch (options_.rule) {
    case SlotRule::kMeanLevel:
      return (1 - options_.decay) * Worth(state.level);
    case SlotRule::kMeanScore:
      return (1 - options_.decay) * state.score_share;
    default:
      return picked_[slot] ? 1.0 : 0.0;
  }
}

void ValuedSlots::Place(const std::vector<uint32_t>& missing) {
  std::vector<size_t> victims;
  for (size_t slot = 0; slot < tags_.size(); ++slot) {
    if (!picked_[slot]) victims.push_back(slot);
  }
  const size_t count = std::min(missing.size(), victims.size());
  std::ranges::partial_sort(
      victims, victims.begin() + static_cast<int64_t>(count),
      [&](size_t a, size_t b) {
        const bool a_empty = tags_[a] == kNoPiece;
        const bool b_empty = tags_[b] == kNoPiece;
        if (a_empty != b_empty) return a_empty;
        if (!a_empty && GoesBefore(states_[a], states_[b])) return true;
        if (!a_empty && GoesBefore(states_[b], states_[a])) return false;
        return a < b;
      });
  for (size_t i = 0; i < count; ++i) {
    const size_t slot = victims[i];
    slot_of_.erase(tags_[slot]);
    tags_[slot] = missing[i];
    slot_of_[missing[i]] = slot;
    states_[slot] = {.last_use = now_,
                     .num_uses = 1,
                     .decayed = options_.rule == SlotRule::kDecayedUse
                                    ? 1.0
                                    : 1 - options_.decay};
  }
}

void ValuedSlots::Fetch(const StepPieces& step, SlotCounts& counts) {
  ++now_;
  std::fill(picked_.begin(), picked_.end(), false);
  std::vector<uint32_t> missing;
  std::unordered_set<uint32_t> known;
  for (const WantedPiece& pick : step.picks) {
    const auto found = slot_of_.find(pick.piece);
    const bool near = found != slot_of_.end();
    if (!pick.page_is_whole && known.insert(pick.piece).second) {
      ++counts.wanted;
      if (!near) missing.push_back(pick.piece);
    }
    if (!near || pick.page_is_whole || picked_[found->second]) continue;
    picked_[found->second] = true;
    states_[found->second].last_use = now_;
    ++states_[found->second].num_uses;
  }
  Rank(step);
  counts.missed += std::ssize(missing);
  const auto num_free =
      static_cast<size_t>(std::count(picked_.begin(), picked_.end(), false));
  const size_t num_placed = std::min(missing.size(), num_free);
  Place(missing);
  counts.fetch[kFetchedCount] += static_cast<int64_t>(num_placed);
}

}  // namespace winnow
