#include "simulate/belady_slots.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_set>

namespace winnow {

BeladySlots::BeladySlots(std::span<const StepPieces> steps) {
  for (int64_t step = std::ssize(steps) - 1; step >= 0; --step) {
    for (const WantedPiece& pick : steps[static_cast<size_t>(step)].picks) {
      if (pick.page_is_whole) continue;
      std::vector<int64_t>& uses = uses_[pick.piece];
      if (uses.empty() || uses.back() != step) uses.push_back(step);
    }
  }
}

void BeladySlots::Resize(int num_slots) {
  tags_.resize(static_cast<size_t>(num_slots), kNoPiece);
}

void BeladySlots::Fetch(const StepPieces& step, SlotCounts& counts) {
  ++now_;
  const std::unordered_set<uint32_t> near(tags_.begin(), tags_.end());
  std::unordered_set<uint32_t> wanted;
  std::vector<uint32_t> missed;
  for (const WantedPiece& pick : step.picks) {
    if (pick.page_is_whole || !wanted.insert(pick.piece).second) continue;
    ++counts.wanted;
    if (!near.contains(pick.piece)) missed.push_back(pick.piece);
  }
  counts.missed += std::ssize(missed);
  // When each is wanted next, whether it would have to come, and which it is.
  using Candidate = std::tuple<int64_t, bool, uint32_t>;
  std::vector<Candidate> candidates;
  const auto add = [&](uint32_t piece, bool is_missed) {
    std::vector<int64_t>& uses = uses_[piece];
    while (!uses.empty() && uses.back() <= now_) uses.pop_back();
    const int64_t next =
        uses.empty() ? std::numeric_limits<int64_t>::max() : uses.back();
    candidates.emplace_back(next, is_missed, piece);
  };
  for (const uint32_t piece : tags_) {
    if (piece != kNoPiece) add(piece, false);
  }
  for (const uint32_t piece : missed) add(piece, true);
  const size_t num_kept = std::min(candidates.size(), tags_.size());
  std::ranges::nth_element(candidates,
                           candidates.begin() + static_cast<int64_t>(num_kept));
  int64_t num_placed = 0;
  std::ranges::fill(tags_, kNoPiece);
  for (size_t i = 0; i < num_kept; ++i) {
    tags_[i] = std::get<2>(candidates[i]);
    num_placed += std::get<1>(candidates[i]) ? 1 : 0;
  }
  counts.fetch[kFetchedCount] += num_placed;
}

}  // namespace winnow
