// FetchBeside: lines that a kernel fetches as it reads those of another half of
// a page. Included by kernel files alone.
//
// One line with each that is read: a slice ends before the hardware has seen a
// pattern in it. A core keeps few misses of its first cache level under way,
// two dozen on Zen 4, and many more of its second: so what is read a unit later
// comes into the second, and what is read next from there into the first. (Both
// into the first, 8 KiB ahead, was slower there; every other line alone, on
// Zen 5.)
#ifndef WINNOW_BACKEND_CPU_FETCH_BESIDE_H_
#define WINNOW_BACKEND_CPU_FETCH_BESIDE_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// Into the second cache level.
[[gnu::always_inline]] inline void FetchFar(const std::byte* line) {
  __builtin_prefetch(line, 0, 2);
}

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
    FetchFar(far_ + offset);
    __builtin_prefetch(near_ + offset);
  }

 private:
  const std::byte* far_;
  const std::byte* near_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_BESIDE_H_
