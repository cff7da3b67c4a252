#include "model/config/config.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/file.h"
#include "model/config/sparse_config.h"

namespace winnow {
namespace {

// Limits far above any checkpoint, low enough that no product of two of them
// overflows 63 bits.
constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr int64_t kMaxSize = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr NumberRange kScaleRange = {1e-6, 1e6};

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
constexpr std::array<NamedActivation, 5> kActivations = {{
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
}};

Result<const Family*> ReadFamily(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   fields.Texts("architectures"));
  if (names.size() == 1) {
    const Family* family = FindFamily(names[0]);
    if (family != nullptr) return family;
  }
  std::string expected;
  for (const Family& family : Families()) {
    expected += fmt::format("{}{}", expected.empty() ? "[one of " : ", ",
                            family.architecture);
  }
  return fields.Unexpected("architectures", expected + "]",
                           ErrorCode::kUnsupported);
}

Status ReadInt(const JsonFields& fields, std::string_view name,
               IntegerRange range, int& value) {
  ASSIGN_OR_RETURN(const int64_t read, fields.Integer(name, range));
  value = static_cast<int>(read);
  return Ok{};
}

Status ReadHeads(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadInt(fields, "num_attention_heads", {1, kMaxHeads},
                          config.num_q_heads));
  ASSIGN_OR_RETURN(const int64_t kv_heads,
                   fields.Integer("num_key_value_heads", {1, kMaxHeads},
                                  config.num_q_heads));
  config.num_kv_heads = static_cast<int>(kv_heads);
  if (config.num_q_heads % config.num_kv_heads != 0) {
    return fields.Unexpected(
        "num_key_value_heads",
        fmt::format("a divisor of num_attention_heads ({})",
                    config.num_q_heads));
  }
  std::optional<int64_t> otherwise;
  if (config.family->default_head_dim != 0) {
    otherwise = config.family->default_head_dim;
  } else if (config.hidden_size % config.num_q_heads == 0) {
    otherwise = config.hidden_size / config.num_q_heads;
  }
  if (!fields.Has("head_dim") && !otherwise) {
    return fields.Unexpected(
        "head_dim", fmt::format("given: hidden_size ({}) is no multiple of "
                                "num_attention_heads ({})",
                                config.hidden_size, config.num_q_heads));
  }
  ASSIGN_OR_RETURN(const int64_t head_dim,
                   fields.Integer("head_dim", {4, kMaxHeadDim}, otherwise));
  config.head_dim = static_cast<int>(head_dim);
  if (head_dim % 2 != 0 || head_dim < 4 || head_dim > kMaxHeadDim) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: field head_dim: must be an even integer in [4, {}], "
                     "is {}",
                     fields.file(), kMaxHeadDim, head_dim);
  }
  return Ok{};
}

Status ReadSizes(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(
      ReadInt(fields, "hidden_size", {1, kMaxSize}, config.hidden_size));
  RETURN_IF_ERROR(ReadInt(fields, "intermediate_size", {1, kMaxSize},
                          config.intermediate_size));
  RETURN_IF_ERROR(
      ReadInt(fields, "num_hidden_layers", {1, kMaxLayers}, config.num_layers));
  RETURN_IF_ERROR(
      ReadInt(fields, "vocab_size", {1, kMaxSampledVocab}, config.vocab_size));
  RETURN_IF_ERROR(ReadHeads(fields, config));
  ASSIGN_OR_RETURN(const double epsilon,
                   fields.Number("rms_norm_eps", {1e-12, 1}, 1e-6));
  config.rms_epsilon = static_cast<float>(epsilon);
  return Ok{};
}

Status ReadActivation(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::string name, fields.Text("hidden_act", "silu"));
  std::string expected;
  for (const NamedActivation& named : kActivations) {
    if (named.name == name) {
      config.activation = named.activation;
      return Ok{};
    }
    expected +=
        fmt::format("{}{}", expected.empty() ? "one of " : ", ", named.name);
  }
  return fields.Unexpected("hidden_act", expected, ErrorCode::kUnsupported);
}

Status ReadBiases(const JsonFields& fields, ModelConfig& config) {
  const Family& family = *config.family;
  ASSIGN_OR_RETURN(const bool attention, fields.Flag("attention_bias", false));
  const auto holds = [&](BiasRule rule) {
    return rule == BiasRule::kAlways ||
           (rule == BiasRule::kAttentionBiasField && attention);
  };
  config.qkv_bias = holds(family.qkv_bias);
  config.o_bias = holds(family.o_bias);
  if (family.reads_mlp_bias) {
    ASSIGN_OR_RETURN(config.mlp_bias, fields.Flag("mlp_bias", false));
  }
  ASSIGN_OR_RETURN(config.tied_embeddings,
                   fields.Flag("tie_word_embeddings", family.tied_by_default));
  return Ok{};
}

// The window that config.json names, 0 for none. Absent is not null here:
// transformers' configuration classes stand at 4096.
Result<int> ReadWindow(const JsonFields& fields) {
  if (fields.IsNull("sliding_window")) return 0;
  ASSIGN_OR_RETURN(
      const int64_t window,
      fields.Integer("sliding_window", {1, kMaxPositions - 1}, 4096));
  return static_cast<int>(window);
}

// The windows of a family that windows layer by layer.
Status ReadLayerTypes(const JsonFields& fields, int window,
                      ModelConfig& config) {
  const auto num_layers = static_cast<size_t>(config.num_layers);
  if (!fields.Has("layer_types")) {
    ASSIGN_OR_RETURN(const int64_t first,
                     fields.Integer("max_window_layers", {0, INT32_MAX}, 28));
    for (size_t i = static_cast<size_t>(first); i < num_layers; ++i) {
      config.windows[i] = window;
    }
    return Ok{};
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> types,
                   fields.Texts("layer_types"));
  bool good = types.size() == num_layers;
  for (size_t i = 0; good && i < num_layers; ++i) {
    good = types[i] == "sliding_attention" || types[i] == "full_attention";
    if (types[i] == "sliding_attention") config.windows[i] = window;
  }
  if (good) return Ok{};
  return fields.Unexpected("layer_types",
                           fmt::format("a list of {} of full_attention and "
                                       "sliding_attention",
                                       num_layers),
                           ErrorCode::kUnsupported);
}

// Of a family whose layers are alike.
Status CheckLayerTypes(const JsonFields& fields, std::string_view expected) {
  ASSIGN_OR_RETURN(const std::vector<std::string> types,
                   fields.Texts("layer_types"));
  for (const std::string& type : types) {
    if (type == expected) continue;
    return fields.Unexpected("layer_types",
                             fmt::format("{} in all layers", expected),
                             ErrorCode::kUnsupported);
  }
  return Ok{};
}

Status ReadWindows(const JsonFields& fields, ModelConfig& config) {
  config.windows.assign(static_cast<size_t>(config.num_layers), 0);
  if (config.family->window == WindowRule::kNone) {
    return CheckLayerTypes(fields, "full_attention");
  }
  ASSIGN_OR_RETURN(int window, ReadWindow(fields));
  if (config.family->window == WindowRule::kAllLayers) {
    RETURN_IF_ERROR(CheckLayerTypes(
        fields, window > 0 ? "sliding_attention" : "full_attention"));
    config.windows.assign(config.windows.size(), window);
    return Ok{};
  }
  ASSIGN_OR_RETURN(const bool used, fields.Flag("use_sliding_window", false));
  return ReadLayerTypes(fields, used ? window : 0, config);
}

// MiniCPM (arXiv 2404.06395, section 3): embeddings, residual branches and
// logits are scaled so that sizes may change under one set of hyperparameters.
Status ReadDepthScales(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const double embedding,
                   fields.Number("scale_emb", kScaleRange, 1));
  ASSIGN_OR_RETURN(const double depth,
                   fields.Number("scale_depth", kScaleRange, 1));
  ASSIGN_OR_RETURN(const int64_t base,
                   fields.Integer("dim_model_base", {1, kMaxSize}, 1));
  config.embedding_scale = static_cast<float>(embedding);
  config.residual_scale = static_cast<float>(
      depth / std::sqrt(static_cast<double>(config.num_layers)));
  config.logit_scale =
      static_cast<float>(static_cast<double>(base) / config.hidden_size);
  return Ok{};
}

// What no model here does, whatever its architecture.
constexpr std::pair<std::string_view, std::string_view> kNone[] = {
    {"num_experts", "absent or 0 (one feed-forward network a layer)"},
    {"num_local_experts", "absent or 0 (one feed-forward network a layer)"},
    {"attn_logit_softcapping", "absent or 0 (attention's scores as they are)"},
    {"final_logit_softcapping", "absent or 0 (logits as they are)"},
};

// What a checkpoint may ask for beyond its architecture.
Status ReadRequests(const JsonFields& fields, ModelConfig& config) {
  if (fields.Has("quantization_config")) {
    return fields.Unexpected("quantization_config",
                             "absent (weights in bfloat16, float16 or float32)",
                             ErrorCode::kUnsupported);
  }
  for (const auto& [name, expected] : kNone) {
    if (!fields.Number(name, {0, 0}, 0).ok()) {
      return fields.Unexpected(name, expected, ErrorCode::kUnsupported);
    }
  }
  if (fields.Has("sparse_config")) {
    ASSIGN_OR_RETURN(const JsonFields sparse, fields.Object("sparse_config"));
    config.native_selector = ReadSparseConfig(sparse);
  }
  return Ok{};
}

}  // namespace

Result<ModelConfig> ParseModelConfig(const JsonFields& fields) {
  ModelConfig config;
  ASSIGN_OR_RETURN(config.family, ReadFamily(fields));
  RETURN_IF_ERROR(ReadSizes(fields, config));
  RETURN_IF_ERROR(ReadActivation(fields, config));
  RETURN_IF_ERROR(ReadBiases(fields, config));
  RETURN_IF_ERROR(ReadWindows(fields, config));
  if (config.family->has_depth_scales) {
    RETURN_IF_ERROR(ReadDepthScales(fields, config));
  }
  RETURN_IF_ERROR(ReadRequests(fields, config));
  ASSIGN_OR_RETURN(
      const int64_t positions,
      fields.Integer("max_position_embeddings", {1, kMaxPositions}));
  ASSIGN_OR_RETURN(config.rope,
                   ReadRopeConfig(fields, config.head_dim, positions));
  config.max_context_tokens = MaxContextTokens(config.rope);
  return config;
}

Result<ModelConfig> ReadModelConfig(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  ASSIGN_OR_RETURN(const JsonFields fields,
                   JsonFields::Parse(text, path.string(), {}));
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(fields));
  ASSIGN_OR_RETURN(config.generation,
                   ReadGenerationDefaults(folder, fields, config.vocab_size));
  return config;
}

}  // namespace winnow
