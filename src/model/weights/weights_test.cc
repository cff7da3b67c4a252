#include "model/weights/weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "model/forward/model.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

const TinyTensor& TensorOf(const TinyCase& model, std::string_view name) {
  for (const TinyTensor& tensor : model.tensors) {
    if (tensor.name == name) return tensor;
  }
  CHECK(false, "no tensor {}", name);
}

template <typename T>
void ExpectHolds(const View& view, const TinyTensor& tensor) {
  ASSERT_EQ(view.num_elements(), static_cast<int64_t>(tensor.values.size()));
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    ASSERT_EQ(static_cast<float>(view.As<T>()[i]),
              static_cast<float>(T(tensor.values[i])))
        << tensor.name << " " << i;
  }
}

// The failure of loading `model` from a folder, whose path is taken out.
std::string Failure(const TinyCase& model, const LoadOptions& options = {}) {
  const TemporaryFolder folder("weights");
  WriteTinyModel(model, folder.path(), {});
  const Result<Model> loaded = Model::Load(folder.path(), options);
  if (loaded.ok()) return "no failure";
  const std::string& message = loaded.error().message;
  const std::string prefix = folder.path().string() + "/";
  CHECK(message.starts_with(prefix), "{}", message);
  return message.substr(prefix.size());
}

// A write in place, whatever its time is set to.
TEST(WeightsTest, FilesThatChangeWhileTheyAreReadAreNamed) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBFloat16}) {
    const TemporaryFolder folder("weights");
    WriteTinyModel(ReadTinyCase("qwen3"), folder.path(), {});
    const DigestMemory memory({});
    LoadOptions options = {.dtype = dtype, .digests = &memory};
    const Model hashed = Model::Load(folder.path(), options).value();
    const Model plain = Model::Load(folder.path(), {.dtype = dtype}).value();
    EXPECT_TRUE(hashed.weights().CheckFiles().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto file = folder.path() / "model.safetensors";
    const auto time = std::filesystem::last_write_time(file);
    std::fstream(file, std::ios::in | std::ios::out).put('!');
    std::filesystem::last_write_time(file, time);
    // What was converted is a copy.
    const Status status = hashed.weights().CheckFiles();
    EXPECT_EQ(status.ok(), dtype == Dtype::kBFloat16);
    if (!status.ok()) {
      EXPECT_EQ(status.error().message,
                file.string() +
                    ": must stay as it is while the model runs, has changed: "
                    "start again when it is whole");
    }
    EXPECT_TRUE(plain.weights().CheckFiles().ok());
  }
}

TEST(WeightsTest, EveryRoleHasItsTensor) {
  const TinyCase qwen = ReadTinyCase("qwen3");
  const TemporaryFolder folder("weights");
  WriteTinyModel(qwen, folder.path(), {});
  const Model model = Model::Load(folder.path(), {}).value();
  const Weights& weights = model.weights();
  EXPECT_EQ(model.dtypes().compute, Dtype::kFloat32);
  EXPECT_EQ(weights.copied_bytes(), 0);
  EXPECT_EQ(weights.mapped_bytes(), weights.num_parameters() * 4);
  const auto expect = [&](const View& view, const std::string& name) {
    ExpectHolds<float>(view, TensorOf(qwen, name + ".weight"));
  };
  expect(weights.embedding, "model.embed_tokens");
  expect(weights.final_norm, "model.norm");
  expect(weights.lm_head.codes, "lm_head");
  ASSERT_EQ(weights.layers.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    const std::string prefix = fmt::format("model.layers.{}.", i);
    expect(layer.input_norm, prefix + "input_layernorm");
    const auto expect_part = [&](const JoinedWeights& joined, size_t part,
                                 const char* name) {
      const WeightMatrix& matrix = joined.products[part].matrix;
      EXPECT_EQ(BrokenRule(matrix), "");
      EXPECT_EQ(matrix.rows, joined.widths[part]);
      expect(matrix.codes, prefix + name);
    };
    expect_part(layer.qkv, 0, "self_attn.q_proj");
    expect_part(layer.qkv, 1, "self_attn.k_proj");
    expect_part(layer.qkv, 2, "self_attn.v_proj");
    expect(layer.q_norm, prefix + "self_attn.q_norm");
    expect(layer.k_norm, prefix + "self_attn.k_norm");
    expect(layer.o.matrix.codes, prefix + "self_attn.o_proj");
    expect(layer.post_attention_norm, prefix + "post_attention_layernorm");
    expect_part(layer.gate_up, 0, "mlp.gate_proj");
    expect_part(layer.gate_up, 1, "mlp.up_proj");
    expect(layer.down.matrix.codes, prefix + "mlp.down_proj");
    EXPECT_TRUE(layer.qkv.products[0].bias.empty() && layer.o.bias.empty());
    EXPECT_EQ(layer.o.matrix.columns, 128);
  }
}

TEST(WeightsTest, BiasesAndTiedEmbeddings) {
  const TemporaryFolder folder("weights");
  const TinyCase llama = ReadTinyCase("llama_bias");
  WriteTinyModel(llama, folder.path(), {.num_shards = 3});
  const Model model = Model::Load(folder.path(), {}).value();
  const LayerWeights& layer = model.weights().layers[1];
  const auto expect = [&](const View& view, const std::string& name) {
    ExpectHolds<float>(view,
                       TensorOf(llama, "model.layers.1." + name + ".bias"));
  };
  expect(layer.qkv.Part(0).bias, "self_attn.q_proj");
  expect(layer.qkv.Part(1).bias, "self_attn.k_proj");
  expect(layer.qkv.Part(2).bias, "self_attn.v_proj");
  expect(layer.o.bias, "self_attn.o_proj");
  expect(layer.gate_up.Part(0).bias, "mlp.gate_proj");
  expect(layer.gate_up.Part(1).bias, "mlp.up_proj");
  expect(layer.down.bias, "mlp.down_proj");

  const TemporaryFolder tied_folder("tied_weights");
  WriteTinyModel(ReadTinyCase("qwen2"), tied_folder.path(), {});
  const Model tied = Model::Load(tied_folder.path(), {}).value();
  EXPECT_EQ(tied.weights().lm_head.codes.data, tied.weights().embedding.data);
  EXPECT_FALSE(tied.weights().layers[0].qkv.Part(0).bias.empty());
  EXPECT_TRUE(tied.weights().layers[0].o.bias.empty());
}

TEST(WeightsTest, AnotherDtypeIsACopyAndCounted) {
  const TinyCase llama = ReadTinyCase("llama");
  const TinyTensor& q =
      TensorOf(llama, "model.layers.1.self_attn.q_proj.weight");
  const TemporaryFolder folder("weights");
  WriteTinyModel(llama, folder.path(), {.dtype = Dtype::kBFloat16});
  const Model stored = Model::Load(folder.path(), {}).value();
  EXPECT_EQ(stored.dtypes().compute, Dtype::kBFloat16);
  EXPECT_EQ(stored.weights().copied_bytes(), 0);
  ExpectHolds<BFloat16>(stored.weights().layers[1].qkv.Part(0).matrix.codes, q);

  const Model wide =
      Model::Load(folder.path(), {.dtype = Dtype::kFloat32, .progress = {}})
          .value();
  EXPECT_EQ(wide.weights().mapped_bytes(), 0);
  EXPECT_EQ(wide.weights().copied_bytes(), wide.weights().num_parameters() * 4);
  for (size_t i = 0; i < q.values.size(); ++i) {
    ASSERT_EQ(wide.weights().layers[1].qkv.Part(0).matrix.codes.As<float>()[i],
              static_cast<float>(BFloat16(q.values[i])));
  }
  const Model half =
      Model::Load(folder.path(), {.dtype = Dtype::kFloat16, .progress = {}})
          .value();
  EXPECT_EQ(
      half.weights().layers[1].qkv.Part(0).matrix.codes.As<Float16>()[5].bits,
      Float16(static_cast<float>(BFloat16(q.values[5]))).bits);
}

// No copy writes into the next one, whatever its size: rows and columns are
// left out, and 33 float16 fill no whole line.
TEST(WeightsTest, CopiesOfOddSizesStandApart) {
  TinyCase llama = ReadTinyCase("llama_bias");
  const std::string field = "\"intermediate_size\": 96";
  llama.config_json.replace(llama.config_json.find(field), field.size(),
                            "\"intermediate_size\": 33");
  for (TinyTensor& tensor : llama.tensors) {
    int64_t count = 1;
    for (int64_t& size : tensor.shape) count *= size = size == 96 ? 33 : size;
    tensor.values.resize(static_cast<size_t>(count));
  }
  const TemporaryFolder folder("weights");
  WriteTinyModel(llama, folder.path(), {});
  const Model model =
      Model::Load(folder.path(), {.dtype = Dtype::kFloat16, .progress = {}})
          .value();
  for (size_t i = 0; i < 2; ++i) {
    const LayerWeights& layer = model.weights().layers[i];
    const auto expect = [&](const View& view, const std::string& name) {
      ExpectHolds<Float16>(
          view, TensorOf(llama, fmt::format("model.layers.{}.{}", i, name)));
    };
    expect(layer.post_attention_norm, "post_attention_layernorm.weight");
    const LinearWeights gate = layer.gate_up.Part(0);
    const LinearWeights up = layer.gate_up.Part(1);
    expect(gate.matrix.codes, "mlp.gate_proj.weight");
    expect(gate.bias, "mlp.gate_proj.bias");
    expect(up.matrix.codes, "mlp.up_proj.weight");
    expect(up.bias, "mlp.up_proj.bias");
    expect(layer.down.matrix.codes, "mlp.down_proj.weight");
    expect(layer.down.bias, "mlp.down_proj.bias");
  }
}

// The data of a file may begin anywhere: a header of odd length.
TEST(WeightsTest, UnalignedTensorsAreCopied) {
  const TinyCase llama = ReadTinyCase("llama");
  const TemporaryFolder folder("weights");
  WriteTinyModel(llama, folder.path(), {});
  const auto path = folder.path() / "model.safetensors";
  const Result<std::string> content = ReadFile(path, size_t{1} << 20);
  ASSERT_TRUE(content.ok());
  std::string file = *content;
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  file.insert(8 + length, " ");
  ++length;
  std::memcpy(file.data(), &length, sizeof(length));
  ASSERT_TRUE(WriteFile(path, file).ok());
  const Model model = Model::Load(folder.path(), {}).value();
  EXPECT_EQ(model.weights().mapped_bytes(), 0);
  ExpectHolds<float>(model.weights().lm_head.codes,
                     TensorOf(llama, "lm_head.weight"));
}

TEST(WeightsTest, ProgressRisesToTheTotal) {
  const TemporaryFolder folder("weights");
  WriteTinyModel(ReadTinyCase("llama"), folder.path(), {});
  int64_t last = -1;
  int64_t total = 0;
  LoadOptions options;
  options.progress = [&](int64_t done, int64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  const Model model = Model::Load(folder.path(), options).value();
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, model.weights().mapped_bytes());
}

TEST(WeightsTest, KnownBuffersAreIgnored) {
  TinyCase qwen = ReadTinyCase("qwen2");  // tied
  qwen.tensors.push_back({"lm_head.weight", {1}, {0}});
  qwen.tensors.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", {1}, {0}});
  EXPECT_EQ(Failure(qwen), "no failure");
}

TEST(WeightsTest, WrongTensorsAreNamed) {
  const TinyCase llama = ReadTinyCase("llama");
  TinyCase missing = llama;
  missing.tensors.erase(missing.tensors.begin());
  EXPECT_EQ(Failure(missing),
            "model.safetensors: tensor lm_head.weight: must have shape [160, "
            "64], is missing");
  TinyCase extra = llama;
  extra.tensors.push_back({"model.layers.2.mlp.up_proj.weight", {1}, {0}});
  EXPECT_EQ(
      Failure(extra),
      "model.safetensors: tensor model.layers.2.mlp.up_proj.weight: must "
      "not be there: config.json asks for LlamaForCausalLM with 2 layers");
  TinyCase reshaped = llama;
  reshaped.tensors[0].shape = {64, 160};
  EXPECT_EQ(Failure(reshaped),
            "model.safetensors: tensor lm_head.weight: must have shape [160, "
            "64], has [64, 160]");
}

TEST(WeightsTest, AnIntegerTensorIsNoWeight) {
  const TemporaryFolder folder("weights");
  WriteTinyModel(ReadTinyCase("llama"), folder.path(), {});
  const auto path = folder.path() / "model.safetensors";
  std::string file = ReadFile(path, size_t{1} << 20).value();
  file.replace(file.find("\"F32\""), 5, "\"I32\"");
  ASSERT_TRUE(WriteFile(path, file).ok());
  EXPECT_EQ(Model::Load(folder.path(), {}).error().message,
            path.string() +
                ": tensor lm_head.weight: dtype must be one of BF16, F16, F32, "
                "is I32");
}

TEST(WeightsTest, NumbersBeyondTheDtypeAreRefused) {
  TinyCase llama = ReadTinyCase("llama");
  llama.tensors[0].values[3] = 1e6f;
  EXPECT_EQ(Failure(llama, {.dtype = Dtype::kFloat16, .progress = {}}),
            "model.safetensors: tensor lm_head.weight: holds numbers beyond "
            "float16");
}

}  // namespace
}  // namespace winnow
