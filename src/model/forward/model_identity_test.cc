#include "model/forward/model_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "model/weights/checkpoint.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

using Json = nlohmann::json;

Model Loaded(const std::filesystem::path& folder,
             std::optional<Dtype> dtype = {}) {
  const DigestMemory memory({});
  Result<Model> model =
      Model::Load(folder, {.dtype = dtype, .digests = &memory});
  CHECK(model.ok(), "{}", model.error().message);
  return *std::move(model);
}

// Names whose values differ, of both.
std::vector<std::string> Differences(const NamedValues& a,
                                     const NamedValues& b) {
  std::vector<std::string> names;
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const auto& entry : *from) {
      if (std::ranges::count(*to, entry) > 0) continue;
      if (std::ranges::count(names, entry.first) == 0) {
        names.push_back(entry.first);
      }
    }
  }
  return names;
}

// A tiny checkpoint whose config.json can be changed.
class ModelIdentityTest : public testing::Test {
 protected:
  void Write(const std::string& name, const TinyCheckpoint& form = {}) {
    golden_ = ReadTinyCase(name);
    WriteTinyModel(golden_, folder_.path(), form);
  }
  NamedValues With(const Json& fields) const {
    Json config = Json::parse(golden_.config_json);
    config.update(fields);
    const auto file = folder_.path() / "config.json";
    CHECK(WriteFile(file, config.dump()).ok());
    NamedValues identity = KvIdentity(Loaded(folder_.path()));
    CHECK(WriteFile(file, golden_.config_json).ok());
    return identity;
  }
  NamedValues Plain() const { return With(Json::object()); }

  TemporaryFolder folder_{"model_identity"};
  TinyCase golden_;
};

// Every tensor that is stored, also one that no KV was made with: whose bytes
// those are, only the file tells.
TEST_F(ModelIdentityTest, OneBitOfOneValueOfAnyTensorTellsTwoModelsApart) {
  for (const char* name : {"qwen3", "llama_bias", "minicpm4_long"}) {
    Write(name, {.dtype = Dtype::kBFloat16, .num_shards = 3});
    const NamedValues before = KvIdentity(Loaded(folder_.path()));
    int64_t seed = 0;
    for (const TinyTensor& tensor : golden_.tensors) {
      int64_t at = 0;
      std::filesystem::path file;
      {
        const Checkpoint checkpoint = Checkpoint::Open(folder_.path()).value();
        const Checkpoint::Entry& entry = *checkpoint.Find(tensor.name);
        const auto& mapped = checkpoint.files()[entry.file];
        file = mapped.path();
        const auto num_values =
            static_cast<int64_t>(entry.tensor.bytes.size()) / 2;
        at = entry.tensor.bytes.data() - mapped.bytes().data() +
             2 * (seed++ * 7919 % num_values);
      }
      std::fstream stream(file,
                          std::ios::in | std::ios::out | std::ios::binary);
      const auto flip = [&] {
        stream.seekg(at);
        const int byte = stream.get();
        stream.seekp(at);
        stream.put(static_cast<char>(byte ^ 1)).flush();
      };
      flip();
      EXPECT_EQ(Differences(before, KvIdentity(Loaded(folder_.path()))),
                std::vector{file.filename().string() + ": hash of all bytes"})
          << tensor.name;
      flip();
    }
    EXPECT_EQ(KvIdentity(Loaded(folder_.path())), before);
  }
}

TEST_F(ModelIdentityTest, WhatLayersAreComputedByIsNamed) {
  Write("llama");
  const NamedValues before = Plain();
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  const std::pair<Json, std::vector<std::string>> changes[] = {
      {{{"rope_theta", 500000.0}}, {"config.json: rope_theta"}},
      {{{"rms_norm_eps", 1e-3}}, {"config.json: rms_norm_eps"}},
      {{{"hidden_act", "gelu"}}, {"config.json: hidden_act"}},
      {{{"rope_scaling", linear}},
       {"config.json: rope_scaling.rope_type",
        "config.json: rope_scaling.factor"}},
      // The same tensors, cut into other heads.
      {{{"num_attention_heads", 2},
        {"num_key_value_heads", 1},
        {"head_dim", 32}},
       {"config.json: num_attention_heads", "config.json: num_key_value_heads",
        "config.json: head_dim"}}};
  for (const auto& [fields, names] : changes) {
    EXPECT_EQ(Differences(before, With(fields)), names) << fields;
  }
  const NamedValues half = KvIdentity(Loaded(folder_.path(), Dtype::kFloat16));
  EXPECT_EQ(Differences(before, half), std::vector<std::string>{"--dtype"});
}

TEST_F(ModelIdentityTest, WindowsCount) {
  Write("mistral");
  EXPECT_EQ(Differences(Plain(), With({{"sliding_window", 7}})),
            std::vector<std::string>{"config.json: sliding_window"});
}

// A field that a kind of scaling uses, for each.
TEST_F(ModelIdentityTest, WhatScalesRotaryEmbeddingsIsNamed) {
  const std::tuple<const char*, const char*, Json> changes[] = {
      {"llama_linear", "factor", 3.5},
      {"llama_dynamic", "factor", 3.5},
      {"llama_llama3", "factor", 3.5},
      {"llama_llama3", "low_freq_factor", 0.5},
      {"llama_llama3", "high_freq_factor", 5.5},
      {"llama_llama3", "original_max_position_embeddings", 80},
      {"llama_yarn", "factor", 3.5},
      {"llama_yarn", "beta_fast", 20},
      {"llama_yarn", "beta_slow", 2},
      {"llama_yarn", "attention_factor", 1.25},
      {"llama_yarn", "truncate", false},
      {"minicpm4_long", "short_factor", std::vector<double>(8, 1.5)},
      {"minicpm4_long", "long_factor", std::vector<double>(8, 1.5)},
      {"minicpm4_long", "attention_factor", 1.25}};
  for (const auto& [name, field, value] : changes) {
    Write(name);
    Json scaling = Json::parse(golden_.config_json)["rope_scaling"];
    scaling[field] = value;
    const auto names = Differences(Plain(), With({{"rope_scaling", scaling}}));
    EXPECT_EQ(names,
              std::vector{std::string("config.json: rope_scaling.") + field})
        << name;
  }
  Write("llama_dynamic");
  EXPECT_EQ(Differences(Plain(), With({{"max_position_embeddings", 64}})),
            std::vector<std::string>{"config.json: max_position_embeddings"});
}

TEST_F(ModelIdentityTest, MiniCpmsScalesCount) {
  Write("minicpm4_long");
  EXPECT_EQ(Differences(Plain(), With({{"scale_emb", 10}})),
            std::vector<std::string>{"config.json: scale_emb"});
  EXPECT_EQ(Differences(Plain(), With({{"scale_depth", 1.5}})),
            std::vector<std::string>{"config.json: scale_depth"});
}

TEST_F(ModelIdentityTest, WhatKvDoesNotDependOnDoesNotCount) {
  Write("llama");
  const NamedValues before = Plain();
  for (const Json& fields :
       {Json{{"eos_token_id", 7}}, Json{{"max_position_embeddings", 4096}},
        Json{{"transformers_version", "5.0"}}, Json{{"torch_dtype", "float16"}},
        Json{{"use_cache", false}}, Json{{"initializer_range", 1}},
        // The same, spelled otherwise.
        Json{{"hidden_act", "swish"}}, Json{{"head_dim", 16}},
        Json{{"rope_parameters",
              {{"rope_type", "default"}, {"rope_theta", 10000}}}}}) {
    EXPECT_EQ(Differences(before, With(fields)), std::vector<std::string>{})
        << fields;
  }
  for (const char* file : {"generation_config.json", "tokenizer_config.json",
                           "notes.json", "adapter.safetensors"}) {
    ASSERT_TRUE(WriteFile(folder_.path() / file, "{}").ok());
  }
  EXPECT_EQ(Plain(), before);
  Write("minicpm4_long");
  EXPECT_EQ(With({{"dim_model_base", 16}}), Plain());
}

TEST_F(ModelIdentityTest, WhatLogitsDependOnBesides) {
  Write("minicpm4_long");
  const NamedValues before = LogitsIdentity(Loaded(folder_.path()));
  Json config = Json::parse(golden_.config_json);
  config["dim_model_base"] = 16;
  ASSERT_TRUE(WriteFile(folder_.path() / "config.json", config.dump()).ok());
  EXPECT_EQ(Differences(before, LogitsIdentity(Loaded(folder_.path()))),
            std::vector<std::string>{"config.json: dim_model_base"});
  // Nothing is named twice where both are told.
  std::set<std::string> names;
  for (const auto& [name, value] : before) names.insert(name);
  for (const auto& [name, value] : KvIdentity(Loaded(folder_.path()))) {
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

}  // namespace
}  // namespace winnow
