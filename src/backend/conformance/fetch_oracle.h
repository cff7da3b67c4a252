// FetchOracle: what Fetch must make of one request's slots of one KV head, told
// in sets and sorts.
#ifndef WINNOW_BACKEND_CONFORMANCE_FETCH_ORACLE_H_
#define WINNOW_BACKEND_CONFORMANCE_FETCH_ORACLE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "backend/contract/slot_table.h"

namespace winnow {

using FetchCounts = std::array<int64_t, kNumFetchCounts>;

// A cache of pieces by least recent use, in buckets, written from the contract
// (docs/design.md section 3 and backend.h); it shares no function with a
// backend.
class FetchOracle {
 public:
  struct Slot {
    std::optional<uint32_t> piece;
    int age = 0;          // bucket of a piece that is there
    bool hinted = false;  // brought for a hint and not picked since
  };
  // In the order of the contract; pieces may repeat.
  struct Wanted {
    uint32_t piece = 0;
    bool page_is_whole = false;
    bool page_reclaimable = false;
  };
  struct Step {
    std::vector<Wanted> picks, hints;
    int64_t first_position = 0, end_position = 0;
    int least_hint_age = 0;
  };

  // Slots are added empty, and taken away with what they hold.
  void Resize(int num_slots);
  void Fetch(const Step& step, FetchCounts& counts);

  const std::vector<Slot>& slots() const { return slots_; }

 private:
  // What the lookup finds: slots, and pieces that are in none.
  struct Found {
    std::set<size_t> picked, hinted;
    std::vector<uint32_t> missing, missing_hints;
    std::set<uint32_t> reclaimable;  // of the hints
  };

  std::optional<size_t> Find(uint32_t piece) const;
  void LookUp(const Step& step, Found& found, FetchCounts& counts);
  // Both return how many pieces they have put into slots.
  int64_t PlacePicks(const Step& step, Found& found);
  int64_t PlaceHints(const Step& step, const Found& found);
  // Puts pieces into slots among `candidates`, the worst first.
  int64_t Place(const std::vector<uint32_t>& pieces,
                std::vector<size_t> candidates, const Slot& as);

  std::vector<Slot> slots_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_FETCH_ORACLE_H_
