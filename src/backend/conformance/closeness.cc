#include "backend/conformance/closeness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

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

// What the running test has recorded so far, 0 where nothing.
double Recorded(const std::string& name) {
  const testing::TestInfo* test =
      testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return 0;
  const testing::TestResult& result = *test->result();
  for (int i = 0; i < result.test_property_count(); ++i) {
    const testing::TestProperty& property = result.GetTestProperty(i);
    if (property.key() == name) return std::strtod(property.value(), nullptr);
  }
  return 0;
}

void Record(const std::string& name, double value) {
  testing::Test::RecordProperty(name, fmt::format("{:.9g}", value));
}

}  // namespace

Closeness::~Closeness() {
  Record("compared", Recorded("compared") + static_cast<double>(num_compared_));
  if (tolerance_ == 0) return;
  const double share = largest_error_ / tolerance_;
  if (share < Recorded("error_share")) return;
  Record("error_share", share);
  Record("largest_error", largest_error_);
  Record("tolerance", tolerance_);
}

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
  const double error = std::abs(got - reference);
  ++num_compared_;
  if (tolerance_ == 0 || error * tolerance_ > largest_error_ * allowed) {
    largest_error_ = error;
    tolerance_ = allowed;
  }
  if (error <= allowed || num_failures_ >= 5) return;
  ++num_failures_;
  ADD_FAILURE() << DtypeName(got_.dtype) << " element "
                << testing::PrintToString(std::vector<int64_t>(index)) << " is "
                << got << ", expected " << reference << " within " << allowed;
}

}  // namespace winnow
