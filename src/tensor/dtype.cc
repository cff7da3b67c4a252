#include "tensor/dtype.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace winnow {

int DtypeBytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kInt64:
      return 8;
    case Dtype::kFloat32:
    case Dtype::kInt32:
    case Dtype::kUInt32:
      return 4;
    case Dtype::kBFloat16:
    case Dtype::kFloat16:
    case Dtype::kUInt16:
      return 2;
    case Dtype::kUInt8:
    case Dtype::kFloat8E4M3:
      return 1;
  }
  CHECK(false, "dtype={}", static_cast<int>(dtype));
}

std::string_view DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kBFloat16:
      return "bfloat16";
    case Dtype::kFloat16:
      return "float16";
    case Dtype::kInt64:
      return "int64";
    case Dtype::kInt32:
      return "int32";
    case Dtype::kUInt32:
      return "uint32";
    case Dtype::kUInt16:
      return "uint16";
    case Dtype::kUInt8:
      return "uint8";
    case Dtype::kFloat8E4M3:
      return "float8_e4m3";
  }
  CHECK(false, "dtype={}", static_cast<int>(dtype));
}

namespace {

// Numbers of E4M3 without their sign, in the order of their values.
float ValueOf(uint32_t magnitude) {
  return std::bit_cast<float>(magnitude << 20) * 0x1p120f;
}

// The greatest that is at most `value`.
uint32_t TowardsZero(float value) {
  CHECK(value <= Float8E4M3::kGreatest, "value={}", value);
  // Where the product is rounded, it may have been rounded up.
  const uint32_t magnitude = std::bit_cast<uint32_t>(value * 0x1p-120f) >> 20;
  return ValueOf(magnitude) > value ? magnitude - 1 : magnitude;
}

uint32_t AwayFromZero(float value) {
  const uint32_t magnitude = TowardsZero(value);
  return ValueOf(magnitude) < value ? magnitude + 1 : magnitude;
}

Float8E4M3 WithSign(bool negative, uint32_t magnitude) {
  Float8E4M3 number;
  number.bits = static_cast<uint8_t>(magnitude | (negative ? 0x80u : 0u));
  return number;
}

}  // namespace

Float8E4M3 Float8E4M3::Nearest(float value) {
  const bool negative = std::signbit(value);
  const float magnitude = std::abs(value);
  const uint32_t low = TowardsZero(magnitude), high = AwayFromZero(magnitude);
  const float to_low = magnitude - ValueOf(low);
  const float to_high = ValueOf(high) - magnitude;
  const bool up = to_low == to_high ? (low & 1u) != 0 : to_low > to_high;
  return WithSign(negative, up ? high : low);
}

Float8E4M3 Float8E4M3::Below(float value) {
  return value < 0 ? WithSign(true, AwayFromZero(-value))
                   : WithSign(false, TowardsZero(value));
}

Float8E4M3 Float8E4M3::Above(float value) {
  return value < 0 ? WithSign(true, TowardsZero(-value))
                   : WithSign(false, AwayFromZero(value));
}

Float8E4M3::operator float() const {
  const uint32_t magnitude = bits & 0x7fu;
  const float value = magnitude == 0x7fu
                          ? std::numeric_limits<float>::quiet_NaN()
                          : ValueOf(magnitude);
  return (bits & 0x80u) != 0 ? -value : value;
}

Float16::Float16(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((word >> 16) & 0x8000u);
  const uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN
    bits = static_cast<uint16_t>(sign | 0x7e00u | ((word >> 13) & 0x1ffu));
  } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or beyond
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal or zero
    // Adding 0.5 aligns the last kept bit with float32's last bit, so the
    // addition itself rounds to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  } else {
    const uint32_t odd = (magnitude >> 13) & 1u;
    const uint32_t rebased = magnitude - 0x38000000u;  // bias 127 -> 15
    bits = static_cast<uint16_t>(sign | ((rebased + 0xfffu + odd) >> 13));
  }
}

Float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u |
                                (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x0400u) {  // subnormal: magnitude * 2^-24, exactly
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

}  // namespace winnow
