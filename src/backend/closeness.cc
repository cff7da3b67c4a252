#include "backend/closeness.h"

#include <gtest/gtest.h>

#include <cmath>

namespace winnow {
namespace {

// Half a unit in the last place, and half the least subnormal.
struct Rounding {
  double relative = 0, absolute = 0;
};

Rounding RoundingOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return {0x1p-24, 0x1p-149};
    case Dtype::kBFloat16:
      return {0x1p-8, 0x1p-134};
    case Dtype::kFloat16:
      return {0x1p-11, 0x1p-25};
    default:
      CHECK(false, "dtype={}", DtypeName(dtype));
  }
}

double ShareOf(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kElementwise:
      return 8e-7;  // 12 roundings of float32
    case Arithmetic::kSum:
      return 2e-6;
    case Arithmetic::kAttention:
      return 2e-5;
    case Arithmetic::kAttentionBf16:
      return 0x1p-8;  // each weight within half a bfloat16 step
  }
  return 0;
}

}  // namespace

void Closeness::Expect(std::initializer_list<int64_t> index, double reference,
                       double magnitude) {
  int64_t flat = 0;
  size_t i = 0;
  for (const int64_t at : index) flat = flat * got_.shape[i++] + at;
  const double got = got_.values[static_cast<size_t>(flat)];
  const Rounding rounding = RoundingOf(got_.dtype);
  const double arithmetic = ShareOf(arithmetic_) * magnitude;
  const double allowed = arithmetic + rounding.absolute +
                         rounding.relative * (std::abs(reference) + arithmetic);
  if (std::abs(got - reference) <= allowed || num_failures_ >= 5) return;
  ++num_failures_;
  ADD_FAILURE() << DtypeName(got_.dtype) << " element "
                << testing::PrintToString(std::vector<int64_t>(index)) << " is "
                << got << ", expected " << reference << " within " << allowed;
}

}  // namespace winnow
