// CountBits: std::popcount, where what this is compiled for has no instruction
// for it and that is a call.
#ifndef WINNOW_BACKEND_CPU_ISA_COUNT_BITS_H_
#define WINNOW_BACKEND_CPU_ISA_COUNT_BITS_H_

#include <cstdint>

namespace winnow {

// By shifts and adds alone, which a loop does for several numbers at once. (Of
// 1,024 numbers in 0.35 us in place of 3.1, by a trial without a record, on a
// Zen 4, compiled for the baseline.)
inline int CountBits(uint32_t x) {
  x -= x >> 1 & 0x55555555;
  x = (x & 0x33333333) + (x >> 2 & 0x33333333);
  x = (x + (x >> 4)) & 0x0f0f0f0f;
  x += x >> 8;
  x += x >> 16;
  return static_cast<int>(x & 0x3f);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_COUNT_BITS_H_
