// The architectures that the one transformer runs, as data: which features a
// family switches on, which field of config.json says so, and what its tensors
// are called.
//
// To add a model: add a row, and a switch where the transformer lacks one.
#ifndef WINNOW_MODEL_CONFIG_FAMILIES_H_
#define WINNOW_MODEL_CONFIG_FAMILIES_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace winnow {

// When a projection has a bias.
enum class BiasRule : uint8_t { kNever, kAlways, kAttentionBiasField };

// Which layers attend through a sliding window.
enum class WindowRule : uint8_t {
  kNone,
  kAllLayers,  // sliding_window, unless null
  kByLayer,    // use_sliding_window; layer_types, or else max_window_layers
};

// Names of a checkpoint's tensors, without ".weight" and ".bias". Those of a
// layer follow `layers`, its number and a dot.
struct TensorNames {
  std::string_view embedding, layers, final_norm, lm_head;
  std::string_view input_norm, q, k, v, o, q_norm, k_norm;
  std::string_view post_attention_norm, gate, up, down;
};

struct Family {
  std::string_view architecture;  // config.json: architectures[0]
  const TensorNames* names = nullptr;
  BiasRule qkv_bias = BiasRule::kNever;
  BiasRule o_bias = BiasRule::kNever;
  bool reads_mlp_bias = false;    // mlp_bias: gate, up and down have one
  bool has_qk_norm = false;       // RMSNorm of each head before RoPE
  bool has_depth_scales = false;  // scale_emb, scale_depth, dim_model_base
  bool tied_by_default = false;   // tie_word_embeddings, where absent
  WindowRule window = WindowRule::kNone;
  int default_head_dim = 0;  // 0: hidden_size / num_attention_heads
};

std::span<const Family> Families();

// The family of an architecture, or nullptr.
const Family* FindFamily(std::string_view architecture);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_FAMILIES_H_
