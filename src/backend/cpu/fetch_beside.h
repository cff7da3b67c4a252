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
// Zen 5 keeps some fifty, and drops a fetch for which it has no room: of 128
// KiB at a line a nanosecond three in ten of those into the first level, four
// in ten of those into the second. What is asked for twice is there more often,
// and from afar it is better asked into the first: FarLevel. (One Zen 5 core, a
// dense decode Read of 32768 tokens, 4 rows, seconds against all far lines into
// the second, at head_dim 64 and 128: into the first 0.93 and 0.97. So and at
// one pace over the whole unit, in the order of memory: 1.00 to 1.05, 0.91 to
// 1.00. Into the second, without near lines: 1.14 and 1.13; the lines of four
// keys at once before these: 1.15 and 1.21; near lines four halves on, from K
// into V: 1.03 and 1.00; far ones of all KV heads of a page as they lie in
// memory: 1.04 and 1.00.)
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
      : far_(ahead.far == nullptr ? half : ahead.far),
        near_(ahead.near == nullptr ? half : ahead.near) {}

  // The line that holds byte `offset`, of both.
  [[gnu::always_inline]] void Line(int64_t offset) const {
    FetchFar<kLevel>(far_ + offset);
    __builtin_prefetch(near_ + offset);
  }

 private:
  const std::byte* far_;
  const std::byte* near_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_BESIDE_H_
