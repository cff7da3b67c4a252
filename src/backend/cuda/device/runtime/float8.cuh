// Rows of float8_e4m3 (backend/contract/summary_table.h) on the device.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_FLOAT8_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_FLOAT8_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace winnow::device {

// A number of such a row, without the row's scale.
struct Float8 {
  uint8_t bits;
};

// The value of a number without its sign: E4M3's and float32's exponents are
// 120 apart. Of a row whose scale is NaN it says nothing.
__device__ inline float Float8Magnitude(uint32_t magnitude) {
  return __uint_as_float(magnitude << 20) * 0x1p120f;
}

__device__ inline float ToFloat(Float8 number) {
  const float value = Float8Magnitude(number.bits & 0x7fu);
  return (number.bits & 0x80u) != 0 ? -value : value;
}

enum class Float8Rounding { kNearest, kBelow, kAbove };

// REQUIRES: |value| <= 448.
__device__ inline Float8 RoundToFloat8(float value, Float8Rounding rounding) {
  const bool is_nearest = rounding == Float8Rounding::kNearest;
  const uint32_t sign =
      is_nearest ? __float_as_uint(value) >> 31 : (value < 0 ? 1u : 0u);
  const float magnitude = fabsf(value);
  // Where the product is rounded, it may have been rounded up.
  uint32_t low = __float_as_uint(magnitude * 0x1p-120f) >> 20;
  if (Float8Magnitude(low) > magnitude) --low;
  const float to_low = magnitude - Float8Magnitude(low);
  const uint32_t high = to_low > 0 ? low + 1 : low;
  bool up = (rounding == Float8Rounding::kBelow) == (sign != 0);
  if (is_nearest) {
    const float to_high = Float8Magnitude(high) - magnitude;
    up = to_low == to_high ? (low & 1u) != 0 : to_low > to_high;
  }
  return {static_cast<uint8_t>((up ? high : low) | sign << 7)};
}

// The least power of two of which a magnitude, given by its bits, is at most
// 448; NaN of what is not finite.
__device__ inline float Float8Scale(uint32_t greatest) {
  if (greatest >= 0x7f800000u) return __uint_as_float(0x7fc00000u);
  if (greatest == 0) return 1.0f;
  const int exponent = static_cast<int>(greatest >> 23) - 127;
  // 448 is 1.75 * 2^8.
  const bool fits = (greatest & 0x7fffffu) <= 0x600000u;
  const int of_scale = exponent - (fits ? 8 : 7);
  return __uint_as_float(static_cast<uint32_t>(max(of_scale, -126) + 127)
                         << 23);
}

// Where a row of `width` numbers has its scale, in bytes.
__device__ inline int Float8ScaleOffset(int width) {
  return (width + 3) / 4 * 4;
}
__device__ inline float Float8ScaleOf(const std::byte* row, int width) {
  return *reinterpret_cast<const float*>(row + Float8ScaleOffset(width));
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_FLOAT8_CUH_
