// ModelConfig: the architecture of a checkpoint, read once and constant
// afterwards.
#ifndef WINNOW_MODEL_CONFIG_CONFIG_H_
#define WINNOW_MODEL_CONFIG_CONFIG_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "model/config/families.h"
#include "model/config/generation_defaults.h"
#include "model/config/json_fields.h"
#include "model/config/rope_config.h"

namespace winnow {

// The selector that a checkpoint was trained with, as a SPEC
// (docs/contract.md), or the reason why it cannot run. --select auto stands for
// it. Empty: dense.
using NativeSelector = std::optional<Result<std::string>>;

// The switches of the one transformer (model/forward/transformer.h). All sizes
// are positive, num_q_heads is a multiple of num_kv_heads, head_dim is even.
struct ModelConfig {
  const Family* family = nullptr;  // static; never null after reading
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_layers = 0;
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int64_t max_context_tokens = 0;  // rope scaling included
  float rms_epsilon = 0;
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;  // lm_head is the embedding table
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  float embedding_scale = 1;  // factor of a token's embedding
  float residual_scale = 1;   // factor of each branch before the residual sum
  float logit_scale = 1;      // factor of the logits
  std::vector<int> windows;   // a layer's sliding window in tokens; 0: none
  RopeConfig rope;
  NativeSelector native_selector;
  GenerationDefaults generation;
};

// Reads the architecture from the fields of a config.json. Leaves `generation`
// empty.
Result<ModelConfig> ParseModelConfig(const JsonFields& fields);

// Reads `folder`/config.json and generation_config.json.
Result<ModelConfig> ReadModelConfig(const std::filesystem::path& folder);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_CONFIG_H_
