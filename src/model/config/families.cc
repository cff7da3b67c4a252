#include "model/config/families.h"

#include <array>

namespace winnow {
namespace {

// What transformers has called the tensors of a decoder since Llama.
constexpr TensorNames kDecoderNames = {
    .embedding = "model.embed_tokens",
    .layers = "model.layers.",
    .final_norm = "model.norm",
    .lm_head = "lm_head",
    .input_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.o_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .post_attention_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

constexpr std::array<Family, 5> kFamilies = {{
    {
        .architecture = "LlamaForCausalLM",  // arXiv 2302.13971, 2407.21783
        .names = &kDecoderNames,
        .qkv_bias = BiasRule::kAttentionBiasField,
        .o_bias = BiasRule::kAttentionBiasField,
        .reads_mlp_bias = true,
    },
    {
        .architecture = "MistralForCausalLM",  // arXiv 2310.06825
        .names = &kDecoderNames,
        .window = WindowRule::kAllLayers,
    },
    {
        .architecture = "Qwen2ForCausalLM",  // arXiv 2407.10671, 2412.15115
        .names = &kDecoderNames,
        .qkv_bias = BiasRule::kAlways,
        .window = WindowRule::kByLayer,
    },
    {
        .architecture = "Qwen3ForCausalLM",  // arXiv 2505.09388
        .names = &kDecoderNames,
        .qkv_bias = BiasRule::kAttentionBiasField,
        .o_bias = BiasRule::kAttentionBiasField,
        .has_qk_norm = true,
        .window = WindowRule::kByLayer,
        .default_head_dim = 128,
    },
    {
        .architecture = "MiniCPMForCausalLM",  // arXiv 2404.06395, 2506.07900
        .names = &kDecoderNames,
        .qkv_bias = BiasRule::kAttentionBiasField,
        .o_bias = BiasRule::kAttentionBiasField,
        .has_depth_scales = true,
        .tied_by_default = true,
    },
}};

}  // namespace

std::span<const Family> Families() { return kFamilies; }

const Family* FindFamily(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (family.architecture == architecture) return &family;
  }
  return nullptr;
}

}  // namespace winnow
