#include "model/weights/loader_fuzz.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/config/config.h"
#include "model/forward/rope.h"
#include "model/weights/safetensors.h"

namespace winnow {
namespace {

constexpr size_t kMaxMessageBytes = 600;

void CheckOneLine(const Error& error) {
  CHECK(error.message.size() <= kMaxMessageBytes, "bytes={}: {}",
        error.message.size(), error.message);
  for (const char c : error.message) {
    CHECK(c >= ' ' && c <= '~', "byte {} in: {}", static_cast<int>(c),
          error.message);
  }
}

void CheckRope(const RopeConfig& rope, int64_t planned_tokens) {
  std::vector<float> inverse(static_cast<size_t>(rope.rotary_dim / 2));
  float scale = 0;
  RopeFrequencies(rope, planned_tokens, inverse, &scale);
  CHECK(std::isfinite(scale) && scale > 0, "scale={}", scale);
  for (const float frequency : inverse) {
    CHECK(std::isfinite(frequency) && frequency > 0, "frequency={}", frequency);
  }
}

}  // namespace

void FuzzSafetensors(std::span<const std::byte> bytes) {
  const auto parsed = ParseSafetensors(bytes, "fuzz");
  if (!parsed.ok()) return CheckOneLine(parsed.error());
  size_t num_bytes = 0;
  unsigned sum = 0;
  for (const StoredTensor& tensor : *parsed) {
    num_bytes += tensor.bytes.size();
    for (const std::byte byte : tensor.bytes) {
      sum += std::to_integer<unsigned>(byte);
    }
  }
  CHECK(num_bytes + 8 <= bytes.size() && sum <= 255 * num_bytes,
        "tensor bytes {} of {}, sum={}", num_bytes, bytes.size(), sum);
}

void FuzzConfig(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const auto fields = JsonFields::Parse(text, "fuzz", {});
  if (!fields.ok()) return CheckOneLine(fields.error());
  const auto config = ParseModelConfig(*fields);
  if (!config.ok()) return CheckOneLine(config.error());
  CHECK(config->family != nullptr && config->head_dim % 2 == 0 &&
            config->num_q_heads % config->num_kv_heads == 0 &&
            static_cast<int>(config->windows.size()) == config->num_layers,
        "head_dim={} q_heads={} kv_heads={} windows={}", config->head_dim,
        config->num_q_heads, config->num_kv_heads, config->windows.size());
  CHECK(config->max_context_tokens > 0, "max_context_tokens={}",
        config->max_context_tokens);
  for (const float scale :
       {config->embedding_scale, config->residual_scale, config->logit_scale}) {
    CHECK(std::isfinite(scale) && scale > 0, "scale={}", scale);
  }
  CheckRope(config->rope, 0);
  CheckRope(config->rope, config->max_context_tokens);
}

}  // namespace winnow
