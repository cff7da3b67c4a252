#include "backend/conformance/fetch_oracle.h"

#include <algorithm>
#include <span>

namespace winnow {
namespace {

// Buckets of one Fetch, of 4 positions from 32 on, of 16 from 48 on.
int Older(int age, int64_t first_position, int64_t end_position) {
  if (age == 63) return 63;
  const int positions = age < 32 ? 1 : age < 48 ? 4 : 16;
  for (int64_t p = first_position; p < end_position; ++p) {
    if (p % positions == 0) return age + 1;
  }
  return age;
}

}  // namespace

void FetchOracle::Resize(int num_slots) {
  slots_.resize(static_cast<size_t>(num_slots));
}

std::optional<size_t> FetchOracle::Find(uint32_t piece) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].piece == piece) return i;
  }
  return std::nullopt;
}

int64_t FetchOracle::Place(const std::vector<uint32_t>& pieces,
                           std::vector<size_t> candidates, const Slot& as) {
  // The victims are the worst, and among equals the first; they then take the
  // pieces as they stand.
  std::ranges::stable_sort(candidates, [&](size_t a, size_t b) {
    const auto worth = [&](size_t i) {
      return slots_[i].piece ? 100 - slots_[i].age : 0;
    };
    return worth(a) < worth(b);
  });
  candidates.resize(std::min(candidates.size(), pieces.size()));
  std::ranges::sort(candidates);
  for (size_t i = 0; i < candidates.size(); ++i) {
    slots_[candidates[i]] = as;
    slots_[candidates[i]].piece = pieces[i];
  }
  return std::ssize(candidates);
}

void FetchOracle::LookUp(const Step& step, Found& found, FetchCounts& counts) {
  for (const Wanted& wanted : step.picks) {
    ++counts[kPicksCount];
    const std::optional<size_t> slot = Find(wanted.piece);
    const bool is_listed = std::ranges::count(found.missing, wanted.piece) > 0;
    if (wanted.page_is_whole || slot || is_listed) {
      ++counts[kHitsCount];
      if (wanted.page_is_whole || !slot || !found.picked.insert(*slot).second) {
        continue;
      }
      counts[kHintsUsedCount] += slots_[*slot].hinted;
      ++counts[static_cast<size_t>(kHitsByAgeCount + slots_[*slot].age)];
      continue;
    }
    ++counts[kMissesCount];
    counts[kReclaimableCount] += wanted.page_reclaimable;
    if (found.missing.size() < slots_.size()) {
      found.missing.push_back(wanted.piece);
    } else {
      ++counts[kUnplacedCount];
    }
  }
  for (const Wanted& wanted : step.hints) {
    if (wanted.page_is_whole) continue;
    if (wanted.page_reclaimable) found.reclaimable.insert(wanted.piece);
    if (const std::optional<size_t> slot = Find(wanted.piece)) {
      found.hinted.insert(*slot);
    } else if (std::ranges::count(found.missing, wanted.piece) == 0 &&
               std::ranges::count(found.missing_hints, wanted.piece) == 0 &&
               found.missing_hints.size() < slots_.size()) {
      found.missing_hints.push_back(wanted.piece);
    }
  }
}

int64_t FetchOracle::PlacePicks(const Step& step, Found& found) {
  // Picks take what is not picked; what is hinted only when all else is gone.
  std::vector<size_t> free, spare;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (found.picked.contains(i)) continue;
    (found.hinted.contains(i) ? spare : free).push_back(i);
  }
  if (found.missing.size() > free.size()) {
    // All the free ones go, and of the spare the lowest: one list, in order.
    spare.resize(std::min(spare.size(), found.missing.size() - free.size()));
    free.insert(free.end(), spare.begin(), spare.end());
  }
  const std::vector<Slot> old = slots_;
  const int64_t num_placed = Place(found.missing, free, Slot());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool is_fresh = slots_[i].piece != old[i].piece;
    if (is_fresh) found.picked.insert(i);
    if (found.picked.contains(i)) {
      slots_[i].age = 0;
      slots_[i].hinted = false;
    } else if (slots_[i].piece) {
      slots_[i].age =
          Older(slots_[i].age, step.first_position, step.end_position);
    }
  }
  return num_placed;
}

int64_t FetchOracle::PlaceHints(const Step& step, const Found& found) {
  std::vector<size_t> cold;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (found.picked.contains(i) || found.hinted.contains(i)) continue;
    const int age = slots_[i].piece ? slots_[i].age : 64;
    if (age >= step.least_hint_age) {
      cold.push_back(i);
    }
  }
  return Place(found.missing_hints, cold,
               {.piece = {}, .age = 0, .hinted = true});
}

void FetchOracle::Fetch(const Step& step, FetchCounts& counts) {
  Found found;
  LookUp(step, found, counts);
  const int64_t num_placed = PlacePicks(step, found);
  const int64_t num_hints = PlaceHints(step, found);
  counts[kUnplacedCount] += std::ssize(found.missing) - num_placed;
  counts[kHintsCount] += num_hints;
  counts[kFetchedCount] += num_placed + num_hints;
  for (const uint32_t piece :
       std::span(found.missing_hints).first(static_cast<size_t>(num_hints))) {
    counts[kReclaimableCount] += found.reclaimable.contains(piece);
  }
  for (const Slot& slot : slots_) {
    ++counts[static_cast<size_t>(kSlotsByAgeCount +
                                 (slot.piece ? slot.age : 64))];
  }
}

}  // namespace winnow
