// WidenFloat8, PairFloat8: numbers of float8_e4m3 as wider ones, in whatever
// vectors the file that includes this is compiled for. Lanes keep the sets'
// functions apart.
#ifndef WINNOW_BACKEND_CPU_FLOAT8_NUMBERS_H_
#define WINNOW_BACKEND_CPU_FLOAT8_NUMBERS_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// E4M3's and float32's exponents are 120 apart; in this order no product leaves
// float32's range.
template <class Lanes>
[[gnu::always_inline]] inline float Float8Number(uint8_t bits, float scale) {
  const uint32_t sign = (bits & 0x80u) << 24;
  const uint32_t magnitude = (bits & 0x7fu) << 20;
  return __builtin_bit_cast(float, sign | magnitude) * 0x1p120f * scale;
}

template <class Lanes>
void WidenFloat8(const uint8_t* from, int64_t count, float scale, void* to) {
  auto* wide = static_cast<float*>(to);
  for (int64_t i = 0; i < count; ++i) {
    wide[i] = Float8Number<Lanes>(from[i], scale);
  }
}

// Four bits of eight are none that a bfloat16 would have to round, unless it is
// below the least normal one.
template <class Lanes>
void PairFloat8(const uint8_t* from, int64_t count, float scale, void* to) {
  auto* halves = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) {
    const float number = Float8Number<Lanes>(from[i], scale);
    halves[i] =
        static_cast<uint16_t>(__builtin_bit_cast(uint32_t, number) >> 16);
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FLOAT8_NUMBERS_H_
