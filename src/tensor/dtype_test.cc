#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace winnow {
namespace {

// The nearest value among all 65,536 codes, ties to the even code: an oracle
// that shares nothing with the conversions but the definition of the format.
template <typename T>
uint16_t NearestCode(float value) {
  uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t code = 0; code < 0x10000; ++code) {
    T candidate;
    candidate.bits = static_cast<uint16_t>(code);
    const double candidate_value = static_cast<float>(candidate);
    if (!std::isfinite(candidate_value)) continue;
    if (std::signbit(candidate_value) != std::signbit(value)) continue;
    const double distance = std::fabs(candidate_value - value);
    const bool even_tie = distance == best_distance && code % 2 == 0;
    if (distance < best_distance || even_tie) {
      best = static_cast<uint16_t>(code);
      best_distance = distance;
    }
  }
  return best;
}

const float kProbes[] = {0.0f,        -0.0f,      1.0f,       1.00390625f,
                         1.01171875f, 3.14159f,   -2.71828f,  65503.9f,
                         6.1e-5f,     6.0e-5f,    5.9604e-8f, 2.9e-8f,
                         3.1e-8f,     -1.234e-6f, 0.333333f,  1023.75f};

TEST(DtypeTest, RoundsToTheNearestCode) {
  for (const float probe : kProbes) {
    EXPECT_EQ(BFloat16(probe).bits, NearestCode<BFloat16>(probe)) << probe;
    EXPECT_EQ(Float16(probe).bits, NearestCode<Float16>(probe)) << probe;
  }
}

TEST(DtypeTest, EveryFiniteCodeSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    Float16 half;
    half.bits = static_cast<uint16_t>(code);
    BFloat16 brain;
    brain.bits = static_cast<uint16_t>(code);
    if (!std::isnan(static_cast<float>(half))) {
      EXPECT_EQ(Float16(static_cast<float>(half)).bits, code);
    }
    if (!std::isnan(static_cast<float>(brain))) {
      EXPECT_EQ(BFloat16(static_cast<float>(brain)).bits, code);
    }
  }
}

TEST(DtypeTest, EdgesOverflowAndNaN) {
  EXPECT_TRUE(std::isinf(static_cast<float>(Float16(65520.0f))));
  EXPECT_EQ(static_cast<float>(Float16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(NAN))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(NAN))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(INFINITY))));
  EXPECT_EQ(static_cast<float>(Float16(0x1p-24f)), 0x1p-24f);
}

}  // namespace
}  // namespace winnow
