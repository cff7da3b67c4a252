// RopeConfig: how a checkpoint turns positions into angles.
#ifndef WINNOW_MODEL_CONFIG_ROPE_CONFIG_H_
#define WINNOW_MODEL_CONFIG_ROPE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config/json_fields.h"

namespace winnow {

// The limit of a checkpoint's lengths. It exceeds every known one. Its product
// with another limit (config.cc) does not overflow 63 bits.
inline constexpr int64_t kMaxPositions = int64_t{1} << 31;

enum class RopeKind : uint8_t {
  kDefault,   // RoFormer, arXiv 2104.09864
  kLinear,    // position interpolation, arXiv 2306.15595
  kDynamic,   // NTK-aware base that depends on the length
  kLlama3,    // wavelengths in three bands
  kYarn,      // arXiv 2309.00071
  kLongRope,  // arXiv 2402.13753
};

// The spelling in config.json.
std::string_view RopeKindName(RopeKind kind);

// Plain data. Fields that a kind does not use keep their defaults.
struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  int rotary_dim = 0;              // even; the rotated elements of a head
  int64_t max_positions = 0;       // max_position_embeddings
  int64_t original_positions = 0;  // length before extension
  double factor = 1;
  // llama3: wavelengths above original / low are stretched, below original /
  // high kept.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double beta_fast = 32;  // yarn: rotations over the original length
  double beta_slow = 1;   // where the ramp begins and ends
  bool truncate = true;   // yarn: the ramp begins at whole dimensions
  std::optional<double> attention_factor;  // multiplies cosine and sine
  double mscale = 0;                       // yarn: 0 = not given
  double mscale_all_dim = 0;
  std::vector<double> short_factors;  // longrope: [rotary_dim / 2]
  std::vector<double> long_factors;   // [rotary_dim / 2]
};

// Reads either spelling: rope_theta with rope_scaling {"rope_type" or, older,
// "type", ...}, or rope_parameters with all values. If a value occurs twice,
// takes the one that Hugging Face transformers 5 takes.
Result<RopeConfig> ReadRopeConfig(const JsonFields& config, int head_dim,
                                  int64_t max_positions);

// The longest context of the kind, in tokens. Linear, dynamic and yarn stretch
// max_position_embeddings; the other kinds state the result there.
int64_t MaxContextTokens(const RopeConfig& rope);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_ROPE_CONFIG_H_
