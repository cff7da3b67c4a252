#include "model/config/rope_config.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace winnow {
namespace {

// A base of 2 would already turn the slowest pair half a turn a token.
constexpr NumberRange kThetaRange = {2, 1e12};
constexpr NumberRange kFactorRange = {1, 65536};
constexpr NumberRange kBandRange = {1e-6, 1e6};
constexpr NumberRange kRopeScaleRange = {1e-3, 1e3};

struct NamedKind {
  std::string_view name;
  RopeKind kind;
};
constexpr std::array<NamedKind, 6> kKinds = {{
    {"default", RopeKind::kDefault},
    {"linear", RopeKind::kLinear},
    {"dynamic", RopeKind::kDynamic},
    {"llama3", RopeKind::kLlama3},
    {"yarn", RopeKind::kYarn},
    {"longrope", RopeKind::kLongRope},
}};

Result<RopeKind> ReadKind(const JsonFields& scaling) {
  const char* name = scaling.Has("rope_type") ? "rope_type" : "type";
  ASSIGN_OR_RETURN(const std::string text, scaling.Text(name, "default"));
  std::string expected;
  for (const NamedKind& named : kKinds) {
    if (named.name == text) return named.kind;
    expected += fmt::format("{}{}", expected.empty() ? "" : ", ", named.name);
  }
  return scaling.Unexpected(name, "one of " + expected,
                            ErrorCode::kUnsupported);
}

Status ReadYarn(const JsonFields& scaling, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.beta_fast, scaling.Number("beta_fast", kBandRange, 32));
  ASSIGN_OR_RETURN(rope.beta_slow, scaling.Number("beta_slow", kBandRange, 1));
  ASSIGN_OR_RETURN(rope.truncate, scaling.Flag("truncate", true));
  ASSIGN_OR_RETURN(rope.mscale, scaling.Number("mscale", {0, 1e3}, 0));
  ASSIGN_OR_RETURN(rope.mscale_all_dim,
                   scaling.Number("mscale_all_dim", {0, 1e3}, 0));
  return Ok{};
}

Status ReadLlama3(const JsonFields& scaling, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.low_freq_factor,
                   scaling.Number("low_freq_factor", kBandRange));
  ASSIGN_OR_RETURN(rope.high_freq_factor,
                   scaling.Number("high_freq_factor", kBandRange));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return scaling.Unexpected(
        "high_freq_factor",
        fmt::format("above low_freq_factor ({})", rope.low_freq_factor));
  }
  return Ok{};
}

Status ReadLongRope(const JsonFields& scaling, RopeConfig& rope) {
  const auto count = static_cast<size_t>(rope.rotary_dim / 2);
  ASSIGN_OR_RETURN(rope.short_factors,
                   scaling.Numbers("short_factor", kRopeScaleRange, count));
  ASSIGN_OR_RETURN(rope.long_factors,
                   scaling.Numbers("long_factor", kRopeScaleRange, count));
  return Ok{};
}

// The length before extension, and by how much it was extended. A length
// beside the rope fields goes before one among them, as in transformers.
Status ReadExtension(const JsonFields& config, const JsonFields& scaling,
                     RopeConfig& rope) {
  const bool own_length = rope.kind == RopeKind::kLlama3 ||
                          rope.kind == RopeKind::kYarn ||
                          rope.kind == RopeKind::kLongRope;
  if (own_length) {
    const char* name = "original_max_position_embeddings";
    const JsonFields& holder = config.Has(name) ? config : scaling;
    ASSIGN_OR_RETURN(
        rope.original_positions,
        holder.Integer(name, {2, kMaxPositions}, rope.max_positions));
  }
  const bool derives_factor =
      rope.kind == RopeKind::kYarn || rope.kind == RopeKind::kLongRope;
  if (derives_factor) {
    ASSIGN_OR_RETURN(rope.attention_factor,
                     scaling.Number("attention_factor", kRopeScaleRange, -1));
    if (rope.attention_factor < 0) rope.attention_factor.reset();
  }
  if (derives_factor && !scaling.Has("factor")) {
    rope.factor = static_cast<double>(rope.max_positions) /
                  static_cast<double>(rope.original_positions);
    return Ok{};
  }
  ASSIGN_OR_RETURN(rope.factor, scaling.Number("factor", kFactorRange));
  return Ok{};
}

Status ReadScaling(const JsonFields& config, const JsonFields& scaling,
                   RopeConfig& rope) {
  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    if (scaling.Has(layer_type)) {
      return scaling.Unexpected(layer_type, "absent (one rope for all layers)",
                                ErrorCode::kUnsupported);
    }
  }
  ASSIGN_OR_RETURN(rope.kind, ReadKind(scaling));
  ASSIGN_OR_RETURN(rope.theta,
                   scaling.Number("rope_theta", kThetaRange, rope.theta));
  ASSIGN_OR_RETURN(const double rotated_share,
                   scaling.Number("partial_rotary_factor", {0, 1}, 1));
  if (rotated_share != 1) {
    return scaling.Unexpected("partial_rotary_factor", "1",
                              ErrorCode::kUnsupported);
  }
  if (rope.kind == RopeKind::kDefault) return Ok{};
  RETURN_IF_ERROR(ReadExtension(config, scaling, rope));
  if (rope.kind == RopeKind::kYarn) return ReadYarn(scaling, rope);
  if (rope.kind == RopeKind::kLlama3) return ReadLlama3(scaling, rope);
  if (rope.kind == RopeKind::kLongRope) return ReadLongRope(scaling, rope);
  return Ok{};
}

}  // namespace

std::string_view RopeKindName(RopeKind kind) {
  const auto* named = std::ranges::find(kKinds, kind, &NamedKind::kind);
  CHECK(named != kKinds.end(), "kind={}", static_cast<int>(kind));
  return named->name;
}

Result<RopeConfig> ReadRopeConfig(const JsonFields& config, int head_dim,
                                  int64_t max_positions) {
  RopeConfig rope;
  rope.rotary_dim = head_dim;
  rope.max_positions = rope.original_positions = max_positions;
  ASSIGN_OR_RETURN(rope.theta,
                   config.Number("rope_theta", kThetaRange, rope.theta));
  ASSIGN_OR_RETURN(const double rotated_share,
                   config.Number("partial_rotary_factor", {0, 1}, 1));
  if (rotated_share != 1) {
    return config.Unexpected("partial_rotary_factor", "1",
                             ErrorCode::kUnsupported);
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(name)) continue;
    ASSIGN_OR_RETURN(const JsonFields scaling, config.Object(name));
    if (scaling.Names().empty()) continue;
    RETURN_IF_ERROR(ReadScaling(config, scaling, rope));
    break;
  }
  return rope;
}

int64_t MaxContextTokens(const RopeConfig& rope) {
  const auto stretched = [&](int64_t positions) {
    return static_cast<int64_t>(static_cast<double>(positions) * rope.factor);
  };
  switch (rope.kind) {
    case RopeKind::kLinear:
    case RopeKind::kDynamic:
      return stretched(rope.max_positions);
    case RopeKind::kYarn:
      return std::max(rope.max_positions, stretched(rope.original_positions));
    case RopeKind::kDefault:
    case RopeKind::kLlama3:
    case RopeKind::kLongRope:
      break;
  }
  return rope.max_positions;
}

}  // namespace winnow
