#include "model/forward/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace winnow {
namespace {

struct Angles {
  std::vector<float> inverse;
  float scale = 0;
};

Angles AnglesOf(const RopeConfig& rope, int64_t planned_tokens) {
  Angles angles;
  angles.inverse.resize(static_cast<size_t>(rope.rotary_dim / 2));
  RopeFrequencies(rope, planned_tokens, angles.inverse, &angles.scale);
  return angles;
}

RopeConfig Rope(RopeKind kind, double theta, int rotary_dim) {
  RopeConfig rope;
  rope.kind = kind;
  rope.theta = theta;
  rope.rotary_dim = rotary_dim;
  rope.max_positions = rope.original_positions = 4096;
  return rope;
}

// theta^(-2i/d), in double: what every kind starts from.
double Plain(const RopeConfig& rope, size_t i) {
  return std::exp(-2.0 * static_cast<double>(i) / rope.rotary_dim *
                  std::log(rope.theta));
}

// The float32 exponent carries an error of up to 2^-25 relative, which the
// logarithm of the base (14 at most) multiplies; then the roundings themselves.
constexpr double kRelativeError = 2e-6;

void ExpectNear(double actual, double expected, const std::string& where) {
  EXPECT_NEAR(actual / expected, 1.0, kRelativeError)
      << where << " " << actual << " " << expected;
}

TEST(RopeTest, DefaultFollowsTheDefinition) {
  const RopeConfig rope = Rope(RopeKind::kDefault, 500000, 128);
  const Angles angles = AnglesOf(rope, 1 << 20);
  EXPECT_EQ(angles.scale, 1.0f);
  EXPECT_EQ(angles.inverse[0], 1.0f);
  for (size_t i = 0; i < 64; ++i) {
    ExpectNear(angles.inverse[i], Plain(rope, i), fmt::format("{}", i));
  }
}

TEST(RopeTest, LinearDividesByTheFactor) {
  RopeConfig rope = Rope(RopeKind::kLinear, 10000, 16);
  rope.factor = 4;
  const Angles angles = AnglesOf(rope, 100);
  for (size_t i = 0; i < 8; ++i) {
    ExpectNear(angles.inverse[i], Plain(rope, i) / 4, fmt::format("{}", i));
  }
}

// base' = base (s L'/L - (s - 1))^(d/(d-2)); with s = 4, L = 40, L' = 120 the
// bracket is 9, and 9^(16/14) = 12.3187...
TEST(RopeTest, DynamicGrowsTheBaseBeyondTheTrainedLength) {
  RopeConfig rope = Rope(RopeKind::kDynamic, 10000, 16);
  rope.factor = 4;
  rope.max_positions = 40;
  const Angles within = AnglesOf(rope, 40);
  const Angles beyond = AnglesOf(rope, 120);
  const double base = 10000 * std::exp(16.0 / 14.0 * std::log(9.0));
  EXPECT_NEAR(base, 123187, 30);
  for (size_t i = 0; i < 8; ++i) {
    ExpectNear(within.inverse[i], Plain(rope, i), fmt::format("{}", i));
    ExpectNear(beyond.inverse[i],
               std::exp(-static_cast<double>(i) / 8 * std::log(base)),
               fmt::format("beyond {}", i));
  }
  EXPECT_EQ(beyond.scale, 1.0f);
}

// Llama 3.1's own constants. Pair i has wavelength 2 pi 500000^(i/64): 28 and
// below turn more than four times in 8192 tokens (wavelength < 2048), 36 and
// above less than once.
TEST(RopeTest, Llama3StretchesLongWavesOnly) {
  RopeConfig rope = Rope(RopeKind::kLlama3, 500000, 128);
  rope.original_positions = 8192;
  rope.factor = 8;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  const Angles angles = AnglesOf(rope, 131072);
  EXPECT_EQ(angles.scale, 1.0f);
  int num_between = 0;
  for (size_t i = 0; i < 64; ++i) {
    const double plain = Plain(rope, i);
    const double turns = 8192 * plain / (2 * M_PI);
    double expected = plain;
    if (turns < 1) {
      expected = plain / 8;
    } else if (turns < 4) {
      const double smooth = (turns - 1) / 3;
      expected = plain * (smooth + (1 - smooth) / 8);
      ++num_between;
    }
    EXPECT_NEAR(angles.inverse[i] / expected, 1, 1e-5) << i;
  }
  EXPECT_EQ(num_between, 6);  // i = 29 to 34
}

// Qwen2.5's yarn: 128 ln(32768 / 64 pi) / (2 ln 1e6) = 23.6, and with 2 pi
// 39.65: pairs up to 23 are kept, those from 40 on divided by the factor, the
// share of the latter grows by 1/17 a pair between.
TEST(RopeTest, YarnRampsBetweenKeptAndInterpolated) {
  RopeConfig rope = Rope(RopeKind::kYarn, 1000000, 128);
  rope.original_positions = 32768;
  rope.factor = 4;
  const Angles angles = AnglesOf(rope, 100000);
  for (size_t i = 0; i < 64; ++i) {
    const double share =
        std::min(std::max((static_cast<double>(i) - 23) / 17, 0.0), 1.0);
    ExpectNear(angles.inverse[i], Plain(rope, i) * (1 - share + share / 4),
               fmt::format("{}", i));
  }
  EXPECT_NEAR(angles.scale, 1.1386294, 1e-6);  // 0.1 ln 4 + 1
}

TEST(RopeTest, YarnTakesAGivenScale) {
  RopeConfig rope = Rope(RopeKind::kYarn, 10000, 16);
  rope.factor = 40;
  EXPECT_NEAR(AnglesOf(rope, 1).scale, 1.3688879, 1e-6);  // 0.1 ln 40 + 1
  rope.mscale = 0.707;
  rope.mscale_all_dim = 1.414;
  // (0.0707 ln 40 + 1) / (0.1414 ln 40 + 1)
  EXPECT_NEAR(AnglesOf(rope, 1).scale, 1.26080 / 1.52161, 1e-4);
  rope.attention_factor = 1.1;
  EXPECT_EQ(AnglesOf(rope, 1).scale, 1.1f);
}

// A ramp of no width must not divide by 0.
TEST(RopeTest, YarnWithEqualBoundsStaysFinite) {
  RopeConfig rope = Rope(RopeKind::kYarn, 10000, 16);
  rope.factor = 4;
  rope.truncate = false;
  rope.beta_fast = rope.beta_slow = 8;
  for (const float frequency : AnglesOf(rope, 1).inverse) {
    EXPECT_TRUE(std::isfinite(frequency) && frequency > 0) << frequency;
  }
}

// MiniCPM4 at 128K: sqrt(1 + ln 4 / ln 32768) = sqrt(1 + 2/15).
TEST(RopeTest, LongRopeChoosesFactorsByThePlannedLength) {
  RopeConfig rope = Rope(RopeKind::kLongRope, 10000, 4);
  rope.original_positions = 32768;
  rope.factor = 4;
  rope.short_factors = {1, 2};
  rope.long_factors = {3, 5};
  const Angles within = AnglesOf(rope, 32768);
  const Angles beyond = AnglesOf(rope, 32769);
  ExpectNear(within.inverse[0], 1, "short 0");
  ExpectNear(within.inverse[1], 0.01 / 2, "short 1");
  ExpectNear(beyond.inverse[0], 1.0 / 3, "long 0");
  ExpectNear(beyond.inverse[1], 0.01 / 5, "long 1");
  EXPECT_NEAR(within.scale, std::sqrt(17.0 / 15), 1e-6);
  EXPECT_EQ(within.scale, beyond.scale);
  rope.factor = 1;
  EXPECT_EQ(AnglesOf(rope, 1).scale, 1.0f);
}

TEST(RopeDeathTest, TheSpanMustFit) {
  const RopeConfig rope = Rope(RopeKind::kDefault, 10000, 16);
  std::vector<float> inverse(7);
  float scale = 0;
  EXPECT_DEATH(RopeFrequencies(rope, 1, inverse, &scale),
               "size=7 rotary_dim=16");
}

}  // namespace
}  // namespace winnow
