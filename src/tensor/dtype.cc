#include "tensor/dtype.h"

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
  }
  CHECK(false, "dtype={}", static_cast<int>(dtype));
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
