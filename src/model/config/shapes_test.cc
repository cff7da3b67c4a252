#include "model/config/shapes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "model/weights/weights.h"

namespace winnow {
namespace {

TEST(ShapesTest, EveryNameHasAConfiguration) {
  EXPECT_GE(ShapeNames().size(), 6u);
  for (const std::string_view name : ShapeNames()) {
    const Result<ModelConfig> config = ConfigOfShape(name);
    ASSERT_TRUE(config.ok()) << name << ": " << config.error().message;
    EXPECT_EQ(config->max_context_tokens, 1 << 20) << name;
  }
}

TEST(ShapesTest, Llama8BHasItsPublishedSizes) {
  const ModelConfig config = ConfigOfShape("llama-3.1-8b").value();
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.num_layers, 32);
  EXPECT_EQ(config.num_q_heads, 32);
  EXPECT_EQ(config.num_kv_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.intermediate_size, 14336);
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_FALSE(config.tied_embeddings);
}

TEST(ShapesTest, AnUnknownShapeIsNamedWithTheKnownOnes) {
  const Result<ModelConfig> config = ConfigOfShape("llama-9");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(config.error().message.starts_with(
      "shape must be one of llama-3.1-8b, llama-3.1-70b, "))
      << config.error().message;
  EXPECT_TRUE(config.error().message.ends_with("is \"llama-9\""));
}

// A small shape by hand: the real ones take gigabytes.
TEST(ShapesTest, RandomWeightsAreOfTheSizeOfTrainedOnes) {
  ModelConfig config = ConfigOfShape("llama-3.2-1b").value();
  config.hidden_size = 64;
  config.num_layers = 2;
  config.vocab_size = 300;
  config.intermediate_size = 96;
  config.windows.resize(2);
  const auto backend = MakeCpuBackend({});
  const Weights weights =
      Weights::Random(config, Dtype::kBFloat16, *backend).value();
  EXPECT_EQ(weights.dtype(), Dtype::kBFloat16);
  EXPECT_EQ(weights.lm_head.codes.data, weights.embedding.data);
  double sum = 0, squares = 0;
  EXPECT_EQ(weights.layers[1].gate_up.products.size(), 1u);
  const View up = weights.layers[1].gate_up.Part(1).matrix.codes;
  for (int64_t i = 0; i < up.num_elements(); ++i) {
    const auto value = static_cast<float>(up.As<BFloat16>()[i]);
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(up.num_elements());
  EXPECT_NEAR(sum / count, 0, 0.002);
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.002);
  EXPECT_EQ(static_cast<float>(weights.final_norm.As<BFloat16>()[63]), 1.0f);
  EXPECT_GT(weights.num_parameters(), 0);
}

}  // namespace
}  // namespace winnow
