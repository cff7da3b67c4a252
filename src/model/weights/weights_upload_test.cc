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
                             weights.lm_head};
  for (const LayerWeights& layer : weights.layers) {
    views.insert(
        views.end(),
        {layer.input_norm, layer.q, layer.q_bias, layer.k, layer.k_bias,
         layer.v, layer.v_bias, layer.q_norm, layer.k_norm, layer.o,
         layer.o_bias, layer.post_attention_norm, layer.gate, layer.gate_bias,
         layer.up, layer.up_bias, layer.down, layer.down_bias});
  }
  return views;
}

std::vector<std::byte> BytesOf(const View& view) {
  if (view.empty()) return {};
  return {view.data, view.data + view.num_elements() * DtypeBytes(view.dtype)};
}

const std::byte* EndOf(const View& view) {
  return view.data + view.num_elements() * DtypeBytes(view.dtype);
}

TEST(WeightsUploadTest, EveryTensorMovesWithItsBytes) {
  for (const char* name : {"qwen2", "qwen3", "llama"}) {
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

TEST(WeightsUploadTest, ProductsThatShareAnInputStandSideBySide) {
  const TemporaryFolder folder("upload");
  Weights weights = LoadWeights(ReadTinyCase("qwen2"), folder);
  const auto backend = MakeCpuBackend({});
  ASSERT_TRUE(weights.Upload(*backend, {}).ok());
  for (const LayerWeights& layer : weights.layers) {
    EXPECT_EQ(EndOf(layer.q), layer.k.data);
    EXPECT_EQ(EndOf(layer.k), layer.v.data);
    EXPECT_EQ(EndOf(layer.q_bias), layer.k_bias.data);
    EXPECT_EQ(EndOf(layer.k_bias), layer.v_bias.data);
    EXPECT_EQ(EndOf(layer.gate), layer.up.data);
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
