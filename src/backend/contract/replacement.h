// Which slots are overwritten: ages, ranks and victims, as pure functions on
// plain numbers, so that Fetch and a simulator decide alike.
#ifndef WINNOW_BACKEND_CONTRACT_REPLACEMENT_H_
#define WINNOW_BACKEND_CONTRACT_REPLACEMENT_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace winnow {

// A slot's age, a byte: in its low seven bits how long ago it was used, in
// buckets that grow (SPIN, arXiv 2604.26837: at most 64 values are as good as
// an order), or that it holds nothing; in the highest whether a hint brought it
// and nothing has picked it since.
inline constexpr int kNumAges = 64;
inline constexpr uint8_t kEmptyAge = 64;
inline constexpr uint8_t kAgeMask = 0x7f;
inline constexpr uint8_t kHintedBit = 0x80;
// Of slots that may make room for hints, an age that none has.
inline constexpr int kNoHintFetch = kEmptyAge + 1;

// By how much slots that Fetch has not used grow older at the end of a Fetch
// for the positions [first, end). Ages grow by one a Fetch up to 32, then where
// the positions pass a multiple of 4, from 48 on of 16; 63 is the greatest. So
// 64 values tell uses up to 352 tokens back apart. The clock is the request's
// own position: no company in the batch changes it.
class AgeClock {
 public:
  AgeClock(int64_t first_position, int64_t end_position);

  // The bit of a hint stays. (No branch: it runs over all slots.)
  uint8_t Next(uint8_t age) const {
    const auto value = static_cast<uint8_t>(age & kAgeMask);
    const uint8_t step = value < kSecondAge     ? 1
                         : value < kThirdAge    ? second_step_
                         : value < kNumAges - 1 ? third_step_
                                                : 0;
    return static_cast<uint8_t>(age + step);
  }

 private:
  static constexpr uint8_t kSecondAge = 32, kThirdAge = 48;

  uint8_t second_step_, third_step_;
};

// What a Fetch wants of a slot that is there.
enum class SlotUse : uint8_t { kNone, kHinted, kPicked };

// The order in which slots are overwritten: the greatest rank first. The order
// of value is this step's picks, which are never overwritten, its hints, age;
// an empty slot is worth nothing.
inline constexpr uint8_t kNeverVictim = 0;
inline constexpr uint8_t kHintedRank = 1;
inline constexpr int kFirstAgeRank = 2;  // of age 0
inline constexpr int kNumRanks = kFirstAgeRank + kEmptyAge + 1;
inline uint8_t EvictionRank(uint8_t age, SlotUse use) {
  const auto of_age = static_cast<uint8_t>(kFirstAgeRank + (age & kAgeMask));
  return use == SlotUse::kPicked   ? kNeverVictim
         : use == SlotUse::kHinted ? kHintedRank
                                   : of_age;
}

// How many bytes have each value below kNumValues. Neighbours are mostly alike,
// and a count that waits for the one before it would take five times as long:
// so each of eight has counts of its own. REQUIRES: all are below kNumValues.
template <int kNumValues>
std::array<int32_t, kNumValues> CountBytes(std::span<const uint8_t> bytes) {
  constexpr size_t kWays = sizeof(uint64_t);
  std::array<std::array<int32_t, kNumValues>, kWays> counts = {};
  size_t i = 0;
  for (; i + kWays <= bytes.size(); i += kWays) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    for (size_t way = 0; way < kWays; ++way) {
      ++counts[way][word >> 8 * way & 0xff];
    }
  }
  for (; i < bytes.size(); ++i) ++counts[0][bytes[i]];
  std::array<int32_t, kNumValues> sums = {};
  for (const auto& of_way : counts) {
    for (size_t value = 0; value < sums.size(); ++value) {
      sums[value] += of_way[value];
    }
  }
  return sums;
}

// How many slots of each rank there are.
using RankCounts = std::array<int32_t, kNumRanks>;
inline RankCounts CountRanks(std::span<const uint8_t> ranks) {
  return CountBytes<kNumRanks>(ranks);
}

// Which slots go: all whose rank is above `rank`, and of those that have it the
// `num_of_rank` lowest. A histogram tells; nothing is sorted.
struct VictimCut {
  int rank = kNumRanks;
  int32_t num_of_rank = 0;
  int32_t num_victims = 0;
};
// The cut for `num_wanted` victims, fewer where fewer have at least
// `least_rank`. REQUIRES: least_rank > kNeverVictim.
VictimCut CutVictims(const RankCounts& counts, int32_t num_wanted,
                     int least_rank);

// Calls visit(slot) for each victim, ascending: the i-th miss goes to the i-th
// of them.
template <typename Visit>
void ForEachVictim(std::span<const uint8_t> ranks, const VictimCut& cut,
                   Visit&& visit) {
  int32_t left = cut.num_victims, left_of_rank = cut.num_of_rank;
  for (size_t slot = 0; left > 0 && slot < ranks.size(); ++slot) {
    if (ranks[slot] < cut.rank) continue;
    if (ranks[slot] == cut.rank && left_of_rank-- <= 0) continue;
    --left;
    visit(static_cast<int32_t>(slot));
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_REPLACEMENT_H_
