// Element types, their sizes, and conversions to and from float32.
#ifndef WINNOW_TENSOR_DTYPE_H_
#define WINNOW_TENSOR_DTYPE_H_

#include <bit>
#include <cstdint>
#include <string_view>

namespace winnow {

enum class Dtype : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kInt64,
  kInt32,
  kUInt32,
  kUInt16,
  kUInt8,
  kFloat8E4M3,
};

// Bytes of one element.
int DtypeBytes(Dtype dtype);
// "float32", "bfloat16", ...: the spelling of --dtype and of config.json.
std::string_view DtypeName(Dtype dtype);

// bfloat16: the upper half of a float32. Rounds to nearest, ties to even; NaN
// stays NaN.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) : bits(Round(value)) {}
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }

 private:
  static uint16_t Round(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
      return static_cast<uint16_t>((word >> 16) | 0x0040u);
    }
    return static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
};

// IEEE binary16, in software: g++ 12 and clang 14 have no common type for it.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;
};

// 4 bits of exponent, 3 of mantissa, no infinity: up to 448 (OCP's E4M3, "fn").
// Numbers of few values, so that they are kept with a scale of their own.
struct Float8E4M3 {
  static constexpr float kGreatest = 448.0f;
  uint8_t bits = 0;

  // The nearest, ties to even; the greatest that is at most `value`; the least
  // that is at least `value`. REQUIRES: |value| <= kGreatest.
  static Float8E4M3 Nearest(float value);
  static Float8E4M3 Below(float value);
  static Float8E4M3 Above(float value);
  explicit operator float() const;
};

// The Dtype of a C++ element type: kDtypeOf<float> == Dtype::kFloat32.
template <typename T>
inline constexpr Dtype kDtypeOf = [] {
  static_assert(sizeof(T) == 0, "no Dtype for this type");
  return Dtype::kUInt8;
}();
template <>
inline constexpr Dtype kDtypeOf<float> = Dtype::kFloat32;
template <>
inline constexpr Dtype kDtypeOf<BFloat16> = Dtype::kBFloat16;
template <>
inline constexpr Dtype kDtypeOf<Float16> = Dtype::kFloat16;
template <>
inline constexpr Dtype kDtypeOf<int64_t> = Dtype::kInt64;
template <>
inline constexpr Dtype kDtypeOf<int32_t> = Dtype::kInt32;
template <>
inline constexpr Dtype kDtypeOf<uint32_t> = Dtype::kUInt32;
template <>
inline constexpr Dtype kDtypeOf<uint16_t> = Dtype::kUInt16;
template <>
inline constexpr Dtype kDtypeOf<uint8_t> = Dtype::kUInt8;
template <>
inline constexpr Dtype kDtypeOf<Float8E4M3> = Dtype::kFloat8E4M3;

}  // namespace winnow

#endif  // WINNOW_TENSOR_DTYPE_H_
