// The architectures that the one transformer runs, as data. A row lists the
// features of a family, the fields of config.json that switch them, and the
// tensors' names.
//
// To add a model: add a row, and a switch for each feature that the transformer
// lacks.
#ifndef WINNOW_MODEL_CONFIG_FAMILIES_H_
#define WINNOW_MODEL_CONFIG_FAMILIES_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace winnow {

// The rule by which a projection has a bias.
enum class BiasRule : uint8_t { kNever, kAlways, kAttentionBiasField };

// The rule by which a layer has a sliding window.
enum class WindowRule : uint8_t {
  kNone,
  kAllLayers,  // sliding_window, unless null
  kByLayer,    // use_sliding_window; layer_types, or else max_window_layers
};

// Names of a checkpoint's tensors, without ".weight" and ".bias". A name
// within a layer stands behind `layers`, the layer's number and a dot.
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
  bool tied_by_default = false;   // tie_word_embeddings, if absent
  WindowRule window = WindowRule::kNone;
  int default_head_dim = 0;  // 0: hidden_size / num_attention_heads
};

std::span<const Family> Families();

// The family of an architecture, or nullptr.
const Family* FindFamily(std::string_view architecture);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_FAMILIES_H_
