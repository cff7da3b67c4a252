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

// Every number of E4M3, by its definition: 1 sign, 4 exponent, 3 mantissa bits.
float Float8ByDefinition(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, -9)
                               : std::ldexp(8 + mantissa, exponent - 10);
  return static_cast<float>((bits & 0x80) != 0 ? -magnitude : magnitude);
}

TEST(DtypeTest, Float8HoldsItsNumbers) {
  for (int bits = 0; bits < 256; ++bits) {
    Float8E4M3 number;
    number.bits = static_cast<uint8_t>(bits);
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(static_cast<float>(number)));
      continue;
    }
    const float value = Float8ByDefinition(bits);
    EXPECT_EQ(static_cast<float>(number), value);
    for (const Float8E4M3 again :
         {Float8E4M3::Nearest(value), Float8E4M3::Below(value),
          Float8E4M3::Above(value)}) {
      EXPECT_EQ(static_cast<float>(again), value);
    }
  }
}

// Between two neighbours, however near one of them.
TEST(DtypeTest, Float8RoundsDownUpAndToTheNearest) {
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = Float8ByDefinition(bits);
    const float high = Float8ByDefinition(bits + 1);
    const float middle = (low + high) / 2;
    const float even = bits % 2 == 0 ? low : high;
    for (const float x : {std::nextafter(low, high), middle,
                          std::nextafter(high, low), low + (high - low) / 3}) {
      const float nearest = x == middle ? even : x < middle ? low : high;
      EXPECT_EQ(static_cast<float>(Float8E4M3::Below(x)), low) << x;
      EXPECT_EQ(static_cast<float>(Float8E4M3::Above(x)), high) << x;
      EXPECT_EQ(static_cast<float>(Float8E4M3::Nearest(x)), nearest) << x;
      EXPECT_EQ(static_cast<float>(Float8E4M3::Below(-x)), -high) << x;
      EXPECT_EQ(static_cast<float>(Float8E4M3::Above(-x)), -low) << x;
      EXPECT_EQ(static_cast<float>(Float8E4M3::Nearest(-x)), -nearest) << x;
    }
  }
}

}  // namespace
}  // namespace winnow
