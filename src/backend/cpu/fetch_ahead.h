// FetchAhead: what a unit kernel fetches for the work that comes after.
#ifndef WINNOW_BACKEND_CPU_FETCH_AHEAD_H_
#define WINNOW_BACKEND_CPU_FETCH_AHEAD_H_

#include <array>
#include <span>

#include "backend/cpu/read_kernels.h"

namespace winnow {

// The units that are read at a time, at most: one of each KV head of an item.
inline constexpr int kMaxItemHeads = 8;

// The halves of some units, one of each KV head, in the order in which they
// lie in memory: page by page, head by head, K and V. REQUIRES: keys and values
// are read where they lie.
class HalvesInMemory {
 public:
  // Those of `units`, at most kMaxItemHeads of the same pages.
  void Assign(std::span<const TileKeys> units);

  // Part `part` of `num_parts`, behind the kBefore halves before it, which may
  // be null.
  std::span<const std::byte* const> Part(int part, int num_parts) const {
    const int begin = count_ * part / num_parts;
    const int end = count_ * (part + 1) / num_parts;
    return {halves_.data() + begin, static_cast<size_t>(kBefore + end - begin)};
  }

  static constexpr int kBefore = kFarHalves - 1;

 private:
  // The first ones are the last of what was assigned before.
  std::array<const std::byte*, kBefore + kMaxItemHeads * 2 * kTileHalves>
      halves_ = {};
  int count_ = 0;
};

// Sets what stands ahead in `keys`: beside its halves in the order in which
// they are read, K before V, the halves of `far` in theirs, and what is read a
// page later, in `keys` or in `next`, which follows and may be empty.
// REQUIRES: as HalvesInMemory; `far` is one of its parts.
void FetchAhead(std::span<const std::byte* const> far, const TileKeys& next,
                TileKeys& keys);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_AHEAD_H_
