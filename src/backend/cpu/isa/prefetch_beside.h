// PrefetchBeside: lines that a kernel fetches as it reads those of another half
// of a page. Included by kernel files alone.
//
// One line with each that is read: a slice ends before the hardware has seen a
// pattern in it. A core keeps few misses of its first cache level under way,
// two dozen on Zen 4, and many more of its second: so what is read later comes
// into the second, and what is read next from there into the first. (Both into
// the first, 8 KiB ahead, was slower there; every other line alone, on Zen 5.)
//
// Pages are read in the order in which they lie in memory, all KV heads of a
// page before the next page, K and V (halves_in_turn.h): so all that is ahead
// is near, and each line comes once. Units read head by head were pieces of 4
// KiB at strides of 64 KiB; with what follows fetched in the order of memory,
// but a unit of eight heads ahead, 0.71 and 0.69 of a plain read by one CPU of
// a Zen 5 at head_dim 64 and 128, as now 0.81 and 0.82
// (record 2026-11-25-a8d84e3-verbs-in-turn.json).
//
// Zen 5 keeps some fifty fetches under way, and drops one for which it has no
// room: what is asked for again a few KiB later is there more often. So a far
// line is asked for three times and a near one once more, all into the first
// level (kFarLevel). (One CPU, by a driver that is not kept, GB/s at head_dim
// 64 and 128 where a plain read reaches 39: far lines 16 KiB ahead once 29 and
// 26, twice 34 and 31, three times 34 and 33; with near ones 8 KiB ahead 32 and
// 31, 36 and 32, 36 and 34. Distances of 12 to 24 KiB are alike; of 8, 34
// and 29.)
#ifndef WINNOW_BACKEND_CPU_ISA_PREFETCH_BESIDE_H_
#define WINNOW_BACKEND_CPU_ISA_PREFETCH_BESIDE_H_

#include "backend/cpu/isa/prefetch_line.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Fetches keep their order and all are made: of those that come at once some
// wait for room, with the loads behind them. (Where fetches were left to the
// compiler, dense decodes, together with sums that stay in registers, of a
// plain read: by two CPUs of a Zen 4 0.80 to 0.89 before, now 0.83 to 0.99 at
// head_dim 64, 0.79 to 0.93 and 0.88 to 0.97 at 128; with AMX by two 0.66 to
// 0.68, now 0.69 to 0.72, and alike; by sixteen alike. Reads of picks: alike
// but for the noise, which is large.
// record 2026-11-27-40a3dac-verbs-in-turn.json and -amx.json.)
template <CacheLevel kLevel = CacheLevel::kSecond>
[[gnu::always_inline]] inline void PrefetchFar(const std::byte* line) {
  PrefetchLine<kLevel>(line);
}

[[gnu::always_inline]] inline void PrefetchNear(const std::byte* line) {
  PrefetchLine<CacheLevel::kFirst>(line);
}

template <CacheLevel kLevel>
class PrefetchBeside {
 public:
  PrefetchBeside() = default;
  // `half`, the one with number `number` of those that a kernel reads. Where
  // none is ahead it is fetched itself, which costs less than a branch.
  [[gnu::always_inline]] PrefetchBeside(const HalvesAhead& ahead, int number,
                                        const std::byte* half) {
    if (ahead.far == nullptr) {
      for (const std::byte*& far : far_) far = half;
      near_ = half;
      return;
    }
    for (int i = 0; i < kNumFar; ++i) far_[i] = ahead.far[number - i];
    near_ = ahead.near[number];
  }

  // The line that holds byte `offset`, of all.
  [[gnu::always_inline]] void Line(int64_t offset) const {
    for (const std::byte* far : far_) PrefetchFar<kLevel>(far + offset);
    PrefetchNear(near_ + offset);
  }

 private:
  // Where fetches are dropped they are asked for again.
  static constexpr int kNumFar =
      kLevel == CacheLevel::kFirst ? 1 + kFarAgain : 1;

  const std::byte* far_[kNumFar] = {};
  const std::byte* near_ = nullptr;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_PREFETCH_BESIDE_H_
