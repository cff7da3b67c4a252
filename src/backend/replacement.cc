#include "backend/replacement.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

// From these ages on a bucket holds the uses of so many positions.
constexpr int kSecondAge = 32, kSecondPositions = 4;
constexpr int kThirdAge = 48, kThirdPositions = 16;

bool PassesMultiple(int64_t first, int64_t end, int of) {
  return (first + of - 1) / of * of < end;
}

}  // namespace

uint8_t NextAge(uint8_t age, int64_t first_position, int64_t end_position) {
  const int value = age & kAgeMask;
  if (value >= kNumAges - 1) return age;
  int step = 1;
  if (value >= kThirdAge) {
    step = PassesMultiple(first_position, end_position, kThirdPositions);
  } else if (value >= kSecondAge) {
    step = PassesMultiple(first_position, end_position, kSecondPositions);
  }
  return static_cast<uint8_t>(age + step);
}

int EvictionRank(uint8_t age, SlotUse use) {
  switch (use) {
    case SlotUse::kPicked:
      return kNeverVictim;
    case SlotUse::kHinted:
      return kHintedRank;
    case SlotUse::kNone:
      return kFirstAgeRank + (age & kAgeMask);
  }
  CHECK(false, "use={}", static_cast<int>(use));
}

RankCounts CountRanks(std::span<const uint8_t> ranks) {
  RankCounts counts = {};
  for (const uint8_t rank : ranks) ++counts[rank];
  return counts;
}

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
