#include "model/forward/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace winnow {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// base^(2i / rotary_dim), i < rotary_dim / 2: the exponent is a float32, the
// power is rounded to one.
float Wavenumber(float base, int i, int rotary_dim) {
  const float exponent =
      static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
  return static_cast<float>(
      std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

// "NTK-aware" scaling by length (bloc97, emozilla): beyond the trained length
// the base grows so that the slowest pair turns as far as it did at that
// length.
float DynamicBase(const RopeConfig& rope, int64_t planned_tokens) {
  const auto base = static_cast<float>(rope.theta);
  if (planned_tokens <= rope.max_positions) return base;
  const auto factor = static_cast<float>(rope.factor);
  const float stretched = factor * static_cast<float>(planned_tokens);
  const float growth = stretched / static_cast<float>(rope.max_positions) -
                       static_cast<float>(rope.factor - 1);
  const double exponent = static_cast<double>(rope.rotary_dim) /
                          static_cast<double>(rope.rotary_dim - 2);
  return base * static_cast<float>(std::pow(
                    static_cast<double>(growth),
                    static_cast<double>(static_cast<float>(exponent))));
}

// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, and
// those between interpolated in how often they turn over the original length.
void StretchLongWaves(const RopeConfig& rope, std::span<float> inverse) {
  const auto original = static_cast<double>(rope.original_positions);
  const auto low = static_cast<float>(rope.low_freq_factor);
  const auto band =
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  for (float& frequency : inverse) {
    const float wavelength = 1.0f / frequency * static_cast<float>(kTwoPi);
    if (wavelength > static_cast<float>(original / rope.low_freq_factor)) {
      frequency /= factor;
    } else if (!(wavelength <
                 static_cast<float>(original / rope.high_freq_factor))) {
      const float turns = 1.0f / wavelength * static_cast<float>(original);
      const float smooth = (turns - low) / band;
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

// The dimension (a fraction) whose pair turns `rotations` times over the
// original length: YaRN, equation 17 solved for the dimension.
double DimensionOf(const RopeConfig& rope, double rotations) {
  return rope.rotary_dim *
         std::log(static_cast<double>(rope.original_positions) /
                  (rotations * kTwoPi)) /
         (2 * std::log(rope.theta));
}

// YaRN ("NTK by parts"): fast pairs keep their frequency, slow ones are
// interpolated, a linear ramp over dimensions lies between.
void InterpolateByParts(const RopeConfig& rope, std::span<float> inverse) {
  double low = DimensionOf(rope, rope.beta_fast);
  double high = DimensionOf(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;  // As in transformers: no division by 0.
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float wavenumber = Wavenumber(static_cast<float>(rope.theta),
                                        static_cast<int>(i), rope.rotary_dim);
    const float kept = 1.0f / wavenumber;
    const float interpolated =
        1.0f / (static_cast<float>(rope.factor) * wavenumber);
    const float position = (static_cast<float>(i) - static_cast<float>(low)) /
                           static_cast<float>(high - low);
    const float keep = 1 - std::clamp(position, 0.0f, 1.0f);
    inverse[i] = interpolated * (1 - keep) + kept * keep;
  }
}

// YaRN's temperature, equation 22, per `mscale`.
double Temperature(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double YarnScale(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dim != 0) {
    return Temperature(rope.factor, rope.mscale) /
           Temperature(rope.factor, rope.mscale_all_dim);
  }
  return Temperature(rope.factor, 1);
}

// LongRoPE, equation 4 and the text below it.
double LongRopeScale(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.factor <= 1) return 1;
  return std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(
                                                   rope.original_positions)));
}

}  // namespace

void RopeFrequencies(const RopeConfig& rope, int64_t planned_tokens,
                     std::span<float> inverse_frequencies, float* scale) {
  CHECK(planned_tokens >= 0, "planned_tokens={}", planned_tokens);
  CHECK(static_cast<int>(inverse_frequencies.size()) * 2 == rope.rotary_dim,
        "size={} rotary_dim={}", inverse_frequencies.size(), rope.rotary_dim);
  const float base = rope.kind == RopeKind::kDynamic
                         ? DynamicBase(rope, planned_tokens)
                         : static_cast<float>(rope.theta);
  const bool is_long = planned_tokens > rope.original_positions;
  const std::vector<double>& factors =
      is_long ? rope.long_factors : rope.short_factors;
  for (size_t i = 0; i < inverse_frequencies.size(); ++i) {
    float wavenumber = Wavenumber(base, static_cast<int>(i), rope.rotary_dim);
    if (rope.kind == RopeKind::kLongRope) {
      wavenumber *= static_cast<float>(factors[i]);
    }
    inverse_frequencies[i] = 1.0f / wavenumber;
  }
  *scale = 1.0f;
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kDynamic:
      break;
    case RopeKind::kLinear:
      for (float& frequency : inverse_frequencies) {
        frequency /= static_cast<float>(rope.factor);
      }
      break;
    case RopeKind::kLlama3:
      StretchLongWaves(rope, inverse_frequencies);
      break;
    case RopeKind::kYarn:
      InterpolateByParts(rope, inverse_frequencies);
      *scale = static_cast<float>(YarnScale(rope));
      break;
    case RopeKind::kLongRope:
      *scale = static_cast<float>(LongRopeScale(rope));
      break;
  }
}

}  // namespace winnow
