// HalvesInTurn: what is read after what, so that kernels can fetch ahead.
#ifndef WINNOW_BACKEND_CPU_HALVES_IN_TURN_H_
#define WINNOW_BACKEND_CPU_HALVES_IN_TURN_H_

#include <array>
#include <span>

#include "backend/cpu/read_kernels.h"

namespace winnow {

// The units whose pages are read in turns, at most: one of each KV head of an
// item.
inline constexpr int kMaxItemHeads = 8;

// How many halves a kernel reads of pages [begin, end), of K and V.
int CountHalves(const TileKeys& keys, int begin, int end);

// The halves of pages in the order in which they are read: `pages_at_once` of
// one of some units, then of the next one; of each the K and then the V.
// What is read elsewhere, as it was copied, is fetched from where they say.
class HalvesInTurn {
 public:
  // What is fetched lies far_bytes and near_bytes ahead, in halves of
  // `half_bytes`: a page at least, as kernels of float32 transpose one before
  // they fetch.
  HalvesInTurn(int far_bytes, int near_bytes, int64_t half_bytes,
               int pages_at_once);

  // Those of `units`, at most kMaxItemHeads, follow. REQUIRES: of what was
  // added before, no more than as many units' are left.
  void Add(std::span<const TileKeys> units);

  // What stands ahead of the next `count` halves, which are taken. It holds
  // until the next call of Add. Behind the last one stands the last one.
  HalvesAhead Take(int count);

 private:
  static constexpr int kMaxAhead = 16;
  static constexpr int kMaxAdded = kMaxItemHeads * 2 * kTileHalves;

  const int far_, near_;  // in halves
  const int pages_at_once_;
  std::array<const std::byte*, 2 * kMaxAdded + kMaxAhead> halves_ = {};
  int begin_ = 0;  // those from begin_ to end_ are left
  int end_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_HALVES_IN_TURN_H_
