#include "model/config/shapes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace winnow {
namespace {

struct Shape {
  std::string_view name;
  std::string_view architecture;
  int hidden, layers, q_heads, kv_heads, head_dim, intermediate, vocab;
  bool tied = false;
};

// Sizes from the published checkpoints: Llama 3.1 and 3.2 (arXiv 2407.21783),
// MiniCPM4 (arXiv 2506.07900), Qwen3 (arXiv 2505.09388).
constexpr std::array<Shape, 6> kShapes = {{
    {"llama-3.1-8b", "LlamaForCausalLM", 4096, 32, 32, 8, 128, 14336, 128256},
    {"llama-3.1-70b", "LlamaForCausalLM", 8192, 80, 64, 8, 128, 28672, 128256},
    {"llama-3.2-1b", "LlamaForCausalLM", 2048, 16, 32, 8, 64, 8192, 128256,
     true},
    {"minicpm4-8b", "MiniCPMForCausalLM", 4096, 32, 32, 2, 128, 16384, 73448},
    {"qwen3-14b", "Qwen3ForCausalLM", 5120, 40, 40, 8, 128, 17408, 151936},
    {"qwen3-32b", "Qwen3ForCausalLM", 5120, 64, 64, 8, 128, 25600, 151936},
}};
constexpr int64_t kMaxContextTokens = 1 << 20;
constexpr std::string_view kBFloat16Name = "bfloat16";

std::string ConfigJson(const Shape& shape) {
  return fmt::format(
      R"({{"architectures": ["{}"], "torch_dtype": "{}", "hidden_size": {},
"num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
"head_dim": {}, "intermediate_size": {}, "vocab_size": {},
"tie_word_embeddings": {}, "max_position_embeddings": {}, "hidden_act": "silu",
"rms_norm_eps": 1e-5, "rope_theta": 500000.0, "scale_emb": 1, "scale_depth": 1,
"dim_model_base": {}, "bos_token_id": 1, "eos_token_id": 2}})",
      shape.architecture, kBFloat16Name, shape.hidden, shape.layers,
      shape.q_heads, shape.kv_heads, shape.head_dim, shape.intermediate,
      shape.vocab, shape.tied, kMaxContextTokens, shape.hidden);
}

}  // namespace

std::vector<std::string_view> ShapeNames() {
  std::vector<std::string_view> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  return names;
}

Result<ModelConfig> ConfigOfShape(std::string_view name) {
  const auto found = std::ranges::find(kShapes, name, &Shape::name);
  if (found == kShapes.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "shape must be one of {}, is \"{}\"",
                     fmt::join(ShapeNames(), ", "), name);
  }
  ASSIGN_OR_RETURN(
      const JsonFields fields,
      JsonFields::Parse(ConfigJson(*found), std::string(name), {}));
  return ParseModelConfig(fields);
}

}  // namespace winnow
