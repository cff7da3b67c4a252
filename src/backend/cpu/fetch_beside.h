// FetchBeside: lines that a kernel fetches as it reads those of another half of
// a page. Included by kernel files alone.
//
// One line with each that is read: a slice ends before the hardware has seen a
// pattern in it. A core keeps few misses of its first cache level under way,
// two dozen on Zen 4, and many more of its second: so what is read a unit later
// comes into the second, and what is read next from there into the first. (Both
// into the first, 8 KiB ahead, was slower there; every other line alone, on
// Zen 5.)
//
// What is read a unit later is fetched in the order in which it lies in memory,
// all KV heads of a page before the next page (fetch_ahead.h): fetched head by
// head, pieces of 4 KiB at strides of 64 KiB, the same bytes come at three
// quarters of a plain read's rate, whatever is fetched how far ahead; so do
// plain loads with as much arithmetic between them (0.77 on two CPUs of a Zen
// 5, in order 0.98, by a driver that is not kept).
//
// Zen 5 keeps some fifty fetches under way, and drops one for which it has no
// room: what is asked for again a few KiB later is there more often. So a far
// line is asked for three times and a near one twice, all into the first level:
// FarLevel. (Two CPUs of a Zen 5, `bench verbs` of trials, dense decode Read of
// 32768 tokens, shares of a plain read at head_dim 64 and 128, where that
// reaches 50 GB/s: head by head 0.75 and 0.73; in memory's order, far lines
// twice and near ones once, 0.80 and 0.79; as now 0.89 and 0.83; far ones four
// times 0.85 and 0.78. In another state it reaches 75: 0.63 and 0.64
// head by head, 0.69 and 0.63 as now. Select alike, at 50 GB/s: means 0.64 to
// 0.70, Quest's bounds by KV heads 0.71 to 0.80.)
#ifndef WINNOW_BACKEND_CPU_FETCH_BESIDE_H_
#define WINNOW_BACKEND_CPU_FETCH_BESIDE_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// The cache level that what is read a unit later comes into.
enum class FarLevel { kFirst, kSecond };

template <FarLevel kLevel = FarLevel::kSecond>
[[gnu::always_inline]] inline void FetchFar(const std::byte* line) {
  __builtin_prefetch(line, 0, kLevel == FarLevel::kFirst ? 3 : 2);
}

template <FarLevel kLevel>
class FetchBeside {
 public:
  // `half` is what is read. Where none is ahead it is fetched itself, which
  // costs less than a branch.
  [[gnu::always_inline]] FetchBeside(const HalvesAhead& ahead,
                                     const std::byte* half)
      : near_(ahead.near == nullptr ? half : ahead.near) {
    for (int i = 0; i < kNumFar; ++i) {
      far_[i] = ahead.far[i] == nullptr ? half : ahead.far[i];
    }
  }

  // The line that holds byte `offset`, of all.
  [[gnu::always_inline]] void Line(int64_t offset) const {
    if constexpr (kAgain) {
      // Where they stand: a compiler moves them together, or leaves one out.
      for (const std::byte* far : far_) FetchHere(far + offset);
      FetchHere(near_ + offset);
      FetchHere(near_ + offset);
    } else {
      FetchFar<kLevel>(far_[0] + offset);
      __builtin_prefetch(near_ + offset);
    }
  }

 private:
  // Where fetches are dropped they are asked for again.
  static constexpr bool kAgain = kLevel == FarLevel::kFirst;
  static constexpr int kNumFar = kAgain ? kFarHalves : 1;

  [[gnu::always_inline]] static void FetchHere(const std::byte* line) {
    asm volatile("prefetcht0 (%0)" : : "r"(line));
  }

  const std::byte* far_[kNumFar];
  const std::byte* near_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_BESIDE_H_
