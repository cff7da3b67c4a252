// HalvesInTurn: what is read after what, so that kernels can fetch ahead.
#ifndef WINNOW_BACKEND_CPU_ATTEND_HALVES_IN_TURN_H_
#define WINNOW_BACKEND_CPU_ATTEND_HALVES_IN_TURN_H_

#include <algorithm>
#include <array>
#include <span>

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// The units whose pages are read in turns, at most: one of each KV head of an
// item.
inline constexpr int kMaxItemHeads = 8;

// How far ahead of what is read lies what is fetched from afar. (32 KiB on a
// Zen 4 and 64 on AMX were no better for dense reads, and an Attend of quest's
// picks was at 0.76 and 0.57 of a plain read, by 16 KiB then at 1.19 to 1.25
// and 0.62 to 0.68, by other merges too:
// record 2026-11-26-ffb1a37-verbs-in-turn.json. By trials without a
// record, on a Zen 4: Select of rows of 128 bytes was slower with 16 KiB, and
// much slower with 24; Reads were alike. Of rows of 256 bytes 12 KiB are too
// near: two pages are the least.)
inline constexpr int kFarBytes = 12288;

// Reads units together: `pages_at_once` pages of one, then those of the next
// one, as KV heads' lie in memory; of each the K and then the V. So it knows
// what halves of pages are read later, in the same units or the next ones.
// Units that are not added are read in the same order, and nothing is fetched.
class HalvesInTurn {
 public:
  // What is fetched lies kFarBytes and near_bytes ahead, in halves of
  // `half_bytes`: near a page at least, as kernels of float32 transpose one
  // before they fetch, and far two, as what both ask for at once comes late;
  // kMaxAhead at most.
  HalvesInTurn(int near_bytes, int64_t half_bytes, int pages_at_once);

  // `units`, at most kMaxItemHeads, are read after what was added before.
  // REQUIRES: of that no more than as many units' is left.
  void Add(std::span<const TileKeys> units);

  // Calls read(unit, page, end) for pages [page, end) of units[unit], in turn,
  // wherever a half of them is read, with what stands ahead in the unit: behind
  // the last half the last one. REQUIRES: `units` were added before all others
  // that are left; or nothing is left, and nothing stands ahead.
  template <typename AttendPages>
  void Attend(std::span<TileKeys> units, const AttendPages& read) {
    ForEach(units.size(), [&](size_t unit, int page, int end) {
      const int num_halves = CountHalves(units[unit], page, end);
      if (num_halves == 0) return;
      units[unit].ahead = Take(num_halves);
      read(unit, page, end);
    });
  }

 private:
  // Calls fn(unit, page, end) for all pages of so many units, in their order.
  template <typename Fn>
  void ForEach(size_t num_units, const Fn& fn) const {
    for (int page = 0; page < kTilePages; page += pages_at_once_) {
      for (size_t unit = 0; unit < num_units; ++unit) {
        fn(unit, page, std::min(page + pages_at_once_, kTilePages));
      }
    }
  }
  // How many halves are read of pages [page, end), of K and V.
  static int CountHalves(const TileKeys& keys, int page, int end);
  // What stands ahead of the next `count` halves, which are taken: nothing
  // where none is left. It holds until the next call of Add.
  HalvesAhead Take(int count);

  static constexpr int kMaxAhead = 16;
  static constexpr int kMaxAdded = kMaxItemHeads * 2 * kTileHalves;

  const int far_, near_;  // in halves
  const int pages_at_once_;
  std::array<const std::byte*, 2 * kMaxAdded + kMaxAhead> halves_ = {};
  int begin_ = 0;  // those from begin_ to end_ are left
  int end_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_HALVES_IN_TURN_H_
