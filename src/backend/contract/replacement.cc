#include "backend/contract/replacement.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

// A bucket of each kind holds the uses of so many positions.
constexpr int kSecondPositions = 4, kThirdPositions = 16;

bool PassesMultiple(int64_t first, int64_t end, int of) {
  return (first + of - 1) / of * of < end;
}

}  // namespace

AgeClock::AgeClock(int64_t first_position, int64_t end_position)
    : second_step_(
          PassesMultiple(first_position, end_position, kSecondPositions)),
      third_step_(
          PassesMultiple(first_position, end_position, kThirdPositions)) {}

VictimCut CutVictims(const RankCounts& counts, int32_t num_wanted,
                     int least_rank) {
  CHECK(least_rank > kNeverVictim && least_rank < kNumRanks, "least_rank={}",
        least_rank);
  VictimCut cut;
  while (cut.num_victims < num_wanted && cut.rank > least_rank) {
    --cut.rank;
    cut.num_of_rank = std::min(counts[static_cast<size_t>(cut.rank)],
                               num_wanted - cut.num_victims);
    cut.num_victims += cut.num_of_rank;
  }
  return cut;
}

}  // namespace winnow
