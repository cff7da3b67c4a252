#include "backend/cpu/select/summary_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace winnow {
namespace {

// The least power of two of which the greatest number is at most 448.
float ScaleOf(std::span<const float> numbers) {
  float greatest = 0;
  for (const float x : numbers) {
    if (!std::isfinite(x)) return std::numeric_limits<float>::quiet_NaN();
    greatest = std::max(greatest, std::abs(x));
  }
  if (greatest == 0) return 1;
  int exponent = 0;
  const float mantissa = std::frexp(greatest, &exponent);
  // 448 is 0.875 * 2^9.
  exponent -= mantissa <= 0.875f ? 9 : 8;
  return std::ldexp(1.0f, std::max(exponent, -126));
}

}  // namespace

void WriteFloat8Row(std::span<const float> numbers, bool bounds,
                    std::byte* row) {
  const float scale = ScaleOf(numbers);
  std::memcpy(row + Float8ScaleAt(static_cast<int>(numbers.size())), &scale,
              sizeof(scale));
  for (size_t c = 0; c < numbers.size(); ++c) {
    Float8E4M3 number;
    if (!std::isnan(scale)) {
      const float x = numbers[c] / scale;
      number = !bounds                  ? Float8E4M3::Nearest(x)
               : c < numbers.size() / 2 ? Float8E4M3::Below(x)
                                        : Float8E4M3::Above(x);
    }
    row[c] = std::byte{number.bits};
  }
}

int64_t Float8ScaleAt(int width) {
  return Float8RowBytes(width) - static_cast<int>(sizeof(float));
}

void ReadSummaryRow(const SummaryRows& rows, const std::byte* row,
                    std::span<float> to) {
  if (rows.dtype == Dtype::kFloat8E4M3) {
    float scale = 0;
    std::memcpy(&scale, row + Float8ScaleAt(static_cast<int>(to.size())),
                sizeof(scale));
    for (size_t c = 0; c < to.size(); ++c) {
      to[c] = static_cast<float>(
                  Float8E4M3{.bits = std::to_integer<uint8_t>(row[c])}) *
              scale;
    }
    return;
  }
  WithFloatType(rows.dtype, [&](auto element) {
    using Row = decltype(element);
    const Row* numbers = reinterpret_cast<const Row*>(row);
    for (size_t c = 0; c < to.size(); ++c) {
      to[c] = static_cast<float>(numbers[c]);
    }
  });
}

}  // namespace winnow
