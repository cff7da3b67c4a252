#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "model/weights/weights.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

Weights LoadWeights(const TinyCase& tiny, const TemporaryFolder& folder) {
  WriteTinyModel(tiny, folder.path(), {});
  const ModelConfig config = ReadModelConfig(folder.path()).value();
  return Weights::Load(folder.path(), config, {}).value();
}

std::vector<View> ViewsOf(const Weights& weights) {
  std::vector<View> views = {weights.embedding, weights.final_norm,
                             weights.lm_head.codes};
  const auto add = [&](const LinearWeights& product) {
    views.push_back(product.matrix.codes);
    views.push_back(product.bias);
  };
  for (const LayerWeights& layer : weights.layers) {
    views.insert(views.end(), {layer.input_norm, layer.q_norm, layer.k_norm,
                               layer.post_attention_norm});
    for (size_t part = 0; part < 3; ++part) add(layer.qkv.Part(part));
    for (size_t part = 0; part < 2; ++part) add(layer.gate_up.Part(part));
    add(layer.o);
    add(layer.down);
  }
  return views;
}

std::vector<std::byte> BytesOf(const View& view) {
  if (view.empty()) return {};
  return {view.data, view.data + view.num_elements() * DtypeBytes(view.dtype)};
}

TEST(WeightsUploadTest, EveryTensorMovesWithItsBytes) {
  for (const char* name : {"qwen2", "qwen3", "llama", "llama_bias"}) {
    const TemporaryFolder folder("upload");
    Weights weights = LoadWeights(ReadTinyCase(name), folder);
    const std::vector<View> before = ViewsOf(weights);
    std::vector<std::vector<std::byte>> bytes;
    for (const View& view : before) bytes.push_back(BytesOf(view));
    const auto backend = MakeCpuBackend({});
    ASSERT_TRUE(weights.Upload(*backend, {}).ok());
    const std::vector<View> after = ViewsOf(weights);
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(BytesOf(after[i]), bytes[i]) << name << " tensor " << i;
      EXPECT_TRUE(before[i].empty() || after[i].data != before[i].data)
          << name << " tensor " << i << " stayed in its file";
    }
  }
}

// The bytes of parts in turn, of which each has its own memory.
struct PartBytes {
  std::vector<std::byte> matrices, biases;

  explicit PartBytes(const JoinedWeights& weights) {
    for (const LinearWeights& product : weights.products) {
      Add(product.matrix.codes, matrices);
      Add(product.bias, biases);
    }
  }
  static void Add(const View& view, std::vector<std::byte>& to) {
    const std::vector<std::byte> bytes = BytesOf(view);
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
};

void ExpectJoined(const JoinedWeights& joined, const PartBytes& parts) {
  ASSERT_EQ(joined.products.size(), 1u);
  const LinearWeights& all = joined.products[0];
  EXPECT_EQ(BrokenRule(all.matrix), "");
  EXPECT_EQ(all.matrix.rows, joined.num_outputs());
  EXPECT_EQ(BytesOf(all.matrix.codes), parts.matrices);
  EXPECT_EQ(BytesOf(all.bias), parts.biases);
}

TEST(WeightsUploadTest, JoinedWeightsAreThePartsInTurn) {
  for (const char* name : {"qwen2", "qwen3", "llama", "llama_bias"}) {
    const TemporaryFolder folder("upload");
    Weights weights = LoadWeights(ReadTinyCase(name), folder);
    std::vector<PartBytes> before;
    for (const LayerWeights& layer : weights.layers) {
      EXPECT_EQ(layer.qkv.products.size(), 3u);
      EXPECT_EQ(layer.gate_up.products.size(), 2u);
      before.emplace_back(layer.qkv);
      before.emplace_back(layer.gate_up);
    }
    const auto backend = MakeCpuBackend({});
    ASSERT_TRUE(weights.Upload(*backend, {}).ok());
    auto next = before.begin();
    for (const LayerWeights& layer : weights.layers) {
      ExpectJoined(layer.qkv, *next++);
      ExpectJoined(layer.gate_up, *next++);
    }
  }
}

TEST(WeightsUploadTest, ProgressRisesToTheTotal) {
  const TemporaryFolder folder("upload");
  Weights weights = LoadWeights(ReadTinyCase("llama"), folder);
  const auto backend = MakeCpuBackend({});
  int64_t last = 0, total = 0;
  const Status uploaded =
      weights.Upload(*backend, [&](int64_t done, int64_t of) {
        EXPECT_GE(done, last);
        last = done;
        total = of;
      });
  ASSERT_TRUE(uploaded.ok());
  EXPECT_GT(total, 0);
  EXPECT_LE(total - last, 256);  // the gap behind the last tensor
}

}  // namespace
}  // namespace winnow
