#include "model/forward/model_identity.h"

#include <fmt/ranges.h>

#include "base/check.h"

namespace winnow {
namespace {

// Takes down fields of config.json.
class ConfigValues {
 public:
  template <typename Value>
  void Add(std::string_view field, const Value& value) {
    values_.emplace_back(fmt::format("config.json: {}", field),
                         fmt::format("{}", value));
  }
  template <typename Value>
  void AddScaling(std::string_view field, const Value& value) {
    Add(fmt::format("rope_scaling.{}", field), value);
  }
  NamedValues Take() { return std::move(values_); }

 private:
  NamedValues values_;
};

std::string_view NameOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_pytorch_tanh";
  }
  CHECK(false, "activation={}", static_cast<int>(activation));
}

// Runs of equal windows: "none in 4 layers, 512 in 28".
std::string WindowsText(const std::vector<int>& windows) {
  std::string text;
  for (size_t first = 0; first < windows.size();) {
    size_t end = first;
    while (end < windows.size() && windows[end] == windows[first]) ++end;
    const std::string window =
        windows[first] == 0 ? "none" : fmt::format("{}", windows[first]);
    text +=
        fmt::format("{}{} in {}", first == 0 ? "" : ", ", window, end - first);
    if (first == 0) text += " layers";
    first = end;
  }
  return text;
}

void AddYarn(const RopeConfig& rope, ConfigValues& values) {
  values.AddScaling("beta_fast", rope.beta_fast);
  values.AddScaling("beta_slow", rope.beta_slow);
  values.AddScaling("truncate", rope.truncate);
  values.AddScaling("mscale", rope.mscale);
  values.AddScaling("mscale_all_dim", rope.mscale_all_dim);
}

// Of a kind that states it.
void AddAttentionFactor(const RopeConfig& rope, ConfigValues& values) {
  values.AddScaling("attention_factor",
                    rope.attention_factor
                        ? fmt::format("{}", *rope.attention_factor)
                        : std::string("none"));
}

void AddRope(const RopeConfig& rope, ConfigValues& values) {
  values.Add("rope_theta", rope.theta);
  values.AddScaling("rope_type", RopeKindName(rope.kind));
  if (rope.kind == RopeKind::kDefault) return;
  values.AddScaling("factor", rope.factor);
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kLinear:
      return;
    case RopeKind::kDynamic:
      values.Add("max_position_embeddings", rope.max_positions);
      return;
    case RopeKind::kLlama3:
      values.AddScaling("low_freq_factor", rope.low_freq_factor);
      values.AddScaling("high_freq_factor", rope.high_freq_factor);
      break;
    case RopeKind::kYarn:
      AddYarn(rope, values);
      AddAttentionFactor(rope, values);
      break;
    case RopeKind::kLongRope:
      values.AddScaling("short_factor", rope.short_factors);
      values.AddScaling("long_factor", rope.long_factors);
      AddAttentionFactor(rope, values);
      break;
  }
  values.AddScaling("original_max_position_embeddings",
                    rope.original_positions);
}

}  // namespace

NamedValues KvIdentity(const Model& model) {
  const ModelConfig& config = model.config();
  ConfigValues values;
  values.Add("architectures", config.family->architecture);
  values.Add("hidden_size", config.hidden_size);
  values.Add("intermediate_size", config.intermediate_size);
  values.Add("num_hidden_layers", config.num_layers);
  values.Add("num_attention_heads", config.num_q_heads);
  values.Add("num_key_value_heads", config.num_kv_heads);
  values.Add("head_dim", config.head_dim);
  values.Add("rms_norm_eps", config.rms_epsilon);
  values.Add("hidden_act", NameOf(config.activation));
  values.Add("attention_bias", config.qkv_bias || config.o_bias);
  values.Add("mlp_bias", config.mlp_bias);
  values.Add("sliding_window", WindowsText(config.windows));
  if (config.family->has_depth_scales) {
    values.Add("scale_emb", config.embedding_scale);
    values.Add("scale_depth", config.residual_scale);
  }
  AddRope(config.rope, values);
  NamedValues identity = values.Take();
  identity.emplace_back("--dtype", DtypeName(model.dtypes().compute));
  const std::vector<FileDigest>& digests = model.weights().digests();
  CHECK(!digests.empty(), "loaded without digests");
  for (const FileDigest& digest : digests) {
    identity.emplace_back(
        fmt::format("{}: hash of all bytes",
                    Printable(digest.path.filename().string())),
        HexOf(digest.hash));
  }
  return identity;
}

NamedValues LogitsIdentity(const Model& model) {
  const ModelConfig& config = model.config();
  ConfigValues values;
  values.Add("tie_word_embeddings", config.tied_embeddings);
  values.Add("vocab_size", config.vocab_size);
  values.Add("longest context", config.max_context_tokens);
  if (config.family->has_depth_scales) {
    values.Add("dim_model_base", config.logit_scale);
  }
  const NativeSelector& selector = config.native_selector;
  values.Add("sparse_config",
             !selector
                 ? std::string("none")
                 : (selector->ok() ? **selector : selector->error().message));
  return values.Take();
}

}  // namespace winnow
