#include "model/config/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/golden/temporary_folder.h"

namespace winnow {
namespace {

using nlohmann::json;

// A small valid config of `architecture`, with `changes` merged in; a change
// to the string "absent" takes the field out.
Result<ModelConfig> ReadChanged(const char* architecture, const char* changes) {
  json config = json::parse(R"({
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
      "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160,
      "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
      "hidden_act": "silu"})");
  config["architectures"] = {architecture};
  const json changed = json::parse(changes);
  for (const auto& [name, value] : changed.items()) {
    if (value == "absent") {
      config.erase(name);
    } else {
      config[name] = value;
    }
  }
  return ParseModelConfig(
      JsonFields::Parse(config.dump(), "config.json", {}).value());
}

std::string ConfigFailure(const char* changes,
                          const char* architecture = "LlamaForCausalLM") {
  const Result<ModelConfig> read = ReadChanged(architecture, changes);
  return read.ok() ? "no failure" : read.error().message;
}

TEST(ConfigTest, LlamaReadsSizesAndBiases) {
  const ModelConfig plain = ReadChanged("LlamaForCausalLM", "{}").value();
  EXPECT_EQ(plain.hidden_size, 64);
  EXPECT_EQ(plain.intermediate_size, 96);
  EXPECT_EQ(plain.num_layers, 3);
  EXPECT_EQ(plain.num_q_heads, 4);
  EXPECT_EQ(plain.num_kv_heads, 2);
  EXPECT_EQ(plain.head_dim, 16);
  EXPECT_EQ(plain.vocab_size, 160);
  EXPECT_EQ(plain.max_context_tokens, 512);
  EXPECT_EQ(plain.rms_epsilon, 1e-5f);
  EXPECT_FALSE(plain.qkv_bias || plain.o_bias || plain.mlp_bias);
  EXPECT_FALSE(plain.tied_embeddings);
  EXPECT_EQ(plain.windows, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(plain.residual_scale, 1.0f);
  const ModelConfig biased =
      ReadChanged("LlamaForCausalLM",
                  R"({"attention_bias": true, "mlp_bias": true, "head_dim": 32,
               "tie_word_embeddings": true, "num_key_value_heads": "absent"})")
          .value();
  EXPECT_TRUE(biased.qkv_bias && biased.o_bias && biased.mlp_bias);
  EXPECT_TRUE(biased.tied_embeddings);
  EXPECT_EQ(biased.head_dim, 32);
  EXPECT_EQ(biased.num_kv_heads, 4);
}

TEST(ConfigTest, MistralWindowsEveryLayerUnlessNull) {
  const auto windows = [](const char* changes) {
    return ReadChanged("MistralForCausalLM", changes).value().windows;
  };
  EXPECT_EQ(windows(R"({"sliding_window": 24})"),
            (std::vector<int>{24, 24, 24}));
  EXPECT_EQ(windows(R"({"sliding_window": null})"),
            (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(windows("{}"), (std::vector<int>{4096, 4096, 4096}));
}

TEST(ConfigTest, Qwen2BiasesQkvAndWindowsByLayer) {
  const ModelConfig plain =
      ReadChanged("Qwen2ForCausalLM",
                  R"({"sliding_window": 24, "max_window_layers": 0,
                                   "use_sliding_window": false})")
          .value();
  EXPECT_TRUE(plain.qkv_bias);
  EXPECT_FALSE(plain.o_bias || plain.mlp_bias);
  EXPECT_EQ(plain.windows, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(ReadChanged("Qwen2ForCausalLM",
                        R"({"sliding_window": 24, "max_window_layers": 1,
                     "use_sliding_window": true})")
                ->windows,
            (std::vector<int>{0, 24, 24}));
  EXPECT_EQ(ReadChanged("Qwen2ForCausalLM",
                        R"({"sliding_window": 24, "max_window_layers": 3,
                     "use_sliding_window": true, "layer_types":
                     ["sliding_attention", "full_attention",
                      "sliding_attention"]})")
                ->windows,
            (std::vector<int>{24, 0, 24}));
}

TEST(ConfigTest, Qwen3NormsHeadsOf128) {
  const ModelConfig config = ReadChanged("Qwen3ForCausalLM", "{}").value();
  EXPECT_TRUE(config.family->has_qk_norm);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_FALSE(config.qkv_bias);
}

TEST(ConfigTest, MiniCpmScalesByDepthAndWidth) {
  const ModelConfig config =
      ReadChanged("MiniCPMForCausalLM",
                  R"({"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16,
               "num_hidden_layers": 32})")
          .value();
  EXPECT_EQ(config.embedding_scale, 12.0f);
  EXPECT_NEAR(config.residual_scale, 0.247487, 1e-6);
  EXPECT_EQ(config.logit_scale, 0.25f);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.native_selector.has_value());
}

TEST(ConfigTest, ASparseCheckpointNamesItsSelector) {
  EXPECT_EQ(
      **ReadChanged("MiniCPMForCausalLM", R"({"sparse_config": {"topk": 64}})")
            ->native_selector,
      "infllm-v2:kernel=32,stride=16,block=64,budget=6144,sink=64,"
      "recent=2048,dense_len=8192");
  // Whoever reads everything does not need it.
  EXPECT_EQ(ReadChanged("MiniCPMForCausalLM",
                        R"({"sparse_config": {"use_nope": true}})")
                ->native_selector->error()
                .message,
            "config.json: field sparse_config.use_nope: must be false (keys "
            "are compressed after rotation), is true");
  EXPECT_EQ(ConfigFailure(R"({"sparse_config": 3})", "MiniCPMForCausalLM"),
            "config.json: field sparse_config: must be an object, is 3");
}

TEST(ConfigTest, UnknownThingsAreRefusedWithTheList) {
  EXPECT_EQ(ConfigFailure("{}", "GptForCausalLM"),
            "config.json: field architectures: must be [one of "
            "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
            "Qwen3ForCausalLM, MiniCPMForCausalLM], is [\"GptForCausalLM\"]");
  EXPECT_NE(ConfigFailure(R"({"architectures": "absent"})").find("is missing"),
            std::string::npos);
  EXPECT_EQ(ConfigFailure(R"({"hidden_act": "relu"})"),
            "config.json: field hidden_act: must be one of silu, swish, gelu, "
            "gelu_new, gelu_pytorch_tanh, is \"relu\"");
  EXPECT_EQ(ConfigFailure(R"({"quantization_config": {"bits": 4}})"),
            "config.json: field quantization_config: must be absent (weights "
            "in bfloat16, float16 or float32), is {\"bits\":4}");
  EXPECT_EQ(ConfigFailure(R"({"num_local_experts": 8})"),
            "config.json: field num_local_experts: must be absent or 0 (one "
            "feed-forward network a layer), is 8");
  EXPECT_TRUE(ReadChanged("LlamaForCausalLM", R"({"num_experts": 0})").ok());
  EXPECT_NE(ConfigFailure(R"({"attn_logit_softcapping": 50})"), "no failure");
  EXPECT_NE(ConfigFailure(R"({"rms_norm_eps": 0})"), "no failure");
  EXPECT_EQ(ConfigFailure(R"({"final_logit_softcapping": 30.0})"),
            "config.json: field final_logit_softcapping: must be absent or 0 "
            "(logits as they are), is 30.0");
  EXPECT_EQ(ConfigFailure(R"({"sliding_window": 8, "layer_types":
                        ["full_attention", "sliding_attention"]})",
                          "MistralForCausalLM"),
            "config.json: field layer_types: must be sliding_attention in all "
            "layers, is [\"full_attention\",\"sliding_attention\"]");
  EXPECT_EQ(ConfigFailure(R"({"layer_types": ["full_attention", "linear"]})"),
            "config.json: field layer_types: must be full_attention in all "
            "layers, is [\"full_attention\",\"linear\"]");
  EXPECT_EQ(
      ConfigFailure(R"({"layer_types": ["full_attention", "linear", "x"]})",
                    "Qwen3ForCausalLM"),
      "config.json: field layer_types: must be a list of 3 of "
      "full_attention and sliding_attention, is "
      "[\"full_attention\",\"linear\",\"x\"]");
}

TEST(ConfigTest, SizesOutOfRangeAreRefused) {
  EXPECT_EQ(ConfigFailure(R"({"hidden_size": "x"})"),
            "config.json: field hidden_size: must be an integer in [1, "
            "1048576], is \"x\"");
  EXPECT_EQ(ConfigFailure(R"({"num_hidden_layers": 0})"),
            "config.json: field num_hidden_layers: must be an integer in [1, "
            "1024], is 0");
  EXPECT_EQ(ConfigFailure(R"({"num_key_value_heads": 3})"),
            "config.json: field num_key_value_heads: must be a divisor of "
            "num_attention_heads (4), is 3");
  EXPECT_EQ(ConfigFailure(R"({"hidden_size": 66})"),
            "config.json: field head_dim: must be given: hidden_size (66) is "
            "no multiple of num_attention_heads (4), is missing");
  EXPECT_EQ(ConfigFailure(R"({"hidden_size": 60})"),
            "config.json: field head_dim: must be an even integer in [4, "
            "1024], is 15");
  EXPECT_EQ(ConfigFailure(R"({"max_position_embeddings": "absent"})"),
            "config.json: field max_position_embeddings: must be an integer "
            "in [1, 2147483648], is missing");
  EXPECT_EQ(ConfigFailure(R"({"vocab_size": 1000.5})"),
            "config.json: field vocab_size: must be an integer in [1, "
            "524288], is 1000.5");
  // What Sample bears: one more would stop the program at the first token.
  EXPECT_EQ(ConfigFailure(R"({"vocab_size": 524289})"),
            "config.json: field vocab_size: must be an integer in [1, "
            "524288], is 524289");
}

// ReadModelConfig: the two files of a folder.
class ConfigFolderTest : public testing::Test {
 protected:
  ConfigFolderTest() {
    Write("config.json", R"({"architectures": ["LlamaForCausalLM"],
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 4, "vocab_size": 160,
        "max_position_embeddings": 512, "eos_token_id": 7})");
  }
  void Write(const char* name, const char* text) {
    ASSERT_TRUE(WriteFile(folder_ / name, text).ok());
  }
  TemporaryFolder temporary_{"config"};
  const std::filesystem::path& folder_ = temporary_.path();
};

TEST_F(ConfigFolderTest, EosComesFromBothFiles) {
  const GenerationDefaults alone = ReadModelConfig(folder_)->generation;
  EXPECT_EQ(alone.eos_token_ids, std::vector<int32_t>{7});
  EXPECT_FALSE(alone.do_sample);
  EXPECT_FALSE(alone.temperature.has_value());
  Write("generation_config.json",
        R"({"eos_token_id": [9, 3, 9], "do_sample": true, "temperature": 0.6,
            "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05})");
  const GenerationDefaults both = ReadModelConfig(folder_)->generation;
  EXPECT_EQ(both.eos_token_ids, (std::vector<int32_t>{3, 7, 9}));
  EXPECT_TRUE(both.wrong_eos.empty());
  EXPECT_TRUE(both.do_sample);
  EXPECT_EQ(both.temperature, 0.6);
  EXPECT_EQ(both.top_p, 0.9);
  EXPECT_EQ(both.top_k, 20);
  EXPECT_EQ(both.repetition_penalty, 1.05);
  EXPECT_FALSE(both.min_p.has_value());
}

TEST_F(ConfigFolderTest, AllTokensMayBeSpeltMinusOne) {
  Write("generation_config.json", R"({"top_k": -1})");
  EXPECT_EQ(ReadModelConfig(folder_)->generation.top_k, 0);
}

TEST_F(ConfigFolderTest, EosMayStandInATextConfig) {
  Write("config.json", R"({"architectures": ["LlamaForCausalLM"],
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 4, "vocab_size": 160,
        "max_position_embeddings": 512, "eos_token_id": 7,
        "text_config": {"eos_token_id": [8, 7]}})");
  EXPECT_EQ(ReadModelConfig(folder_)->generation.eos_token_ids,
            (std::vector<int32_t>{7, 8}));
}

// A model whose files name an end too many is a model all the same.
TEST_F(ConfigFolderTest, WhatIsNoEosIsLeftOutAndNamed) {
  const std::string file = (folder_ / "generation_config.json").string();
  const auto eos_of = [this](const std::string& value) {
    Write("generation_config.json",
          ("{\"eos_token_id\": " + value + "}").c_str());
    return ReadModelConfig(folder_)->generation;
  };
  for (const auto& [value, shown] :
       std::vector<std::pair<std::string, std::string>>{
           {"160", "160"},
           {"-1", "-1"},
           {"\"</s>\"", "\"</s>\""},
           {"1.5", "1.5"},
           {"true", "true"}}) {
    const GenerationDefaults alone = eos_of(value);
    EXPECT_EQ(alone.eos_token_ids, std::vector<int32_t>{7});
    EXPECT_EQ(alone.wrong_eos,
              (std::vector<std::string>{
                  file +
                  ": field eos_token_id: must be an integer in [0, "
                  "159], or a list of such integers, is " +
                  shown}));
    const GenerationDefaults listed = eos_of("[5, " + value + ", 6]");
    EXPECT_EQ(listed.eos_token_ids, (std::vector<int32_t>{5, 6, 7}));
    EXPECT_EQ(listed.wrong_eos,
              (std::vector<std::string>{
                  file +
                  ": field eos_token_id[1]: must be an integer in [0, "
                  "159], is " +
                  shown}));
  }
}

TEST_F(ConfigFolderTest, AWrongGenerationConfigIsRefused) {
  Write("generation_config.json", R"({"top_p": 1.5})");
  EXPECT_EQ(ReadModelConfig(folder_).error().message,
            (folder_ / "generation_config.json").string() +
                ": field top_p: must be a number in [0, 1], is 1.5");
  Write("generation_config.json", R"({"repetition_penalty": 0.005})");
  EXPECT_EQ(ReadModelConfig(folder_).error().message,
            (folder_ / "generation_config.json").string() +
                ": field repetition_penalty: must be a number in [0.01, 100], "
                "is 0.005");
}

TEST_F(ConfigFolderTest, AFolderThatIsNoModelIsNamed) {
  EXPECT_EQ(ReadModelConfig("/nowhere").error().message,
            "/nowhere/config.json: cannot open: No such file or directory");
}

}  // namespace
}  // namespace winnow
