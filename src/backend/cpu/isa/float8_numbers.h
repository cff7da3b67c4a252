// WidenFloat8, PairFloat8: numbers of float8_e4m3 as wider ones, in whatever
// vectors the file that includes this is compiled for. Lanes keep the sets'
// functions apart.
#ifndef WINNOW_BACKEND_CPU_ISA_FLOAT8_NUMBERS_H_
#define WINNOW_BACKEND_CPU_ISA_FLOAT8_NUMBERS_H_

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// E4M3's and float32's exponents are 120 apart; in this order no product leaves
// float32's range.
template <class Lanes>
[[gnu::always_inline]] inline float Float8Number(uint8_t bits, float scale) {
  const uint32_t sign = (bits & 0x80u) << 24;
  const uint32_t magnitude = (bits & 0x7fu) << 20;
  return __builtin_bit_cast(float, sign | magnitude) * 0x1p120f * scale;
}

// f(numbers, scale, index of the row)
template <class Lanes, class Fn>
[[gnu::always_inline]] inline void ForFloat8Rows(const Float8Rows& rows,
                                                 Fn&& fn) {
  const std::byte* row = rows.first;
  for (int i = 0; i < rows.count; ++i) {
    float scale;
    __builtin_memcpy(&scale, row + rows.scale_at, sizeof(scale));
    fn(reinterpret_cast<const uint8_t*>(row), scale, i);
    row += rows.row_bytes;
  }
}

template <class Lanes>
void WidenFloat8(const Float8Rows& rows, void* to) {
  ForFloat8Rows<Lanes>(rows, [&](const uint8_t* from, float scale, int row) {
    float* wide = static_cast<float*>(to) + row * rows.width;
    for (int i = 0; i < rows.width; ++i) {
      wide[i] = Float8Number<Lanes>(from[i], scale);
    }
  });
}

// Whether `scale` is a power of two whose multiples by numbers of E4M3, but for
// zeros, are all normal ones of bfloat16: from 2^-9 to 480 times it.
template <class Lanes>
[[gnu::always_inline]] inline bool ScalesToNormal(float scale) {
  const auto bits = __builtin_bit_cast(uint32_t, scale);
  return scale >= 0x1p-117f && scale <= 0x1p119f && (bits & 0x7fffffu) == 0;
}

// Four bits of eight are none that a bfloat16 would have to round, unless it is
// below the least normal one.
template <class Lanes>
void PairFloat8(const Float8Rows& rows, void* to) {
  ForFloat8Rows<Lanes>(rows, [&](const uint8_t* from, float scale, int row) {
    uint16_t* halves = static_cast<uint16_t*>(to) + row * rows.width;
    int i = 0;
    if constexpr (requires { typename Lanes::Float8Pairs; }) {
      if (ScalesToNormal<Lanes>(scale)) {
        const typename Lanes::Float8Pairs pairs(scale);
        for (; i + 32 <= rows.width; i += 32) pairs.Write(from + i, halves + i);
      }
    }
    for (; i < rows.width; ++i) {
      const float number = Float8Number<Lanes>(from[i], scale);
      halves[i] =
          static_cast<uint16_t>(__builtin_bit_cast(uint32_t, number) >> 16);
    }
  });
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_FLOAT8_NUMBERS_H_
