#include "model/weights/gates.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string_view>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "model/forward/model.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

constexpr std::string_view kFile = "attn_gate_weights.safetensors";

class GatesTest : public testing::Test {
 protected:
  void SetUp() override {
    const TinyCase tiny = ReadTinyCase("qwen3");
    WriteTinyModel(tiny, folder_.path(), {});
    config_ = Model::Load(folder_.path(), {}).value().config();
  }

  std::string ErrorOf(ErrorCode code) const {
    const Result<Gates> gates = Gates::Load(folder_.path(), config_);
    if (gates.ok()) return "";
    EXPECT_EQ(gates.error().code, code);
    return gates.error().message;
  }
  std::string File() const { return (folder_.path() / kFile).string(); }

  const TemporaryFolder folder_{"gates"};
  ModelConfig config_;
};

TEST_F(GatesTest, AreReadByHead) {
  WriteTinyGates(config_, folder_.path());
  const Gates gates = Gates::Load(folder_.path(), config_).value();
  const int64_t dim = config_.head_dim, heads = config_.num_kv_heads;
  const int64_t group = config_.num_q_heads / heads;
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    const GateWeights& gate = gates.layer(layer);
    EXPECT_EQ(ToString(gate.q), ToString(MakeView(gate.q.data, Dtype::kFloat32,
                                                  {heads, group * dim, dim})));
    EXPECT_EQ(ToString(gate.k), ToString(MakeView(gate.k.data, Dtype::kFloat32,
                                                  {heads, 3 * dim, dim})));
    // Norms are about 1, as the file has them, and projections about 0.
    EXPECT_GT(gate.q_norm.As<float>()[0], 0.5f);
    EXPECT_GT(gate.k_norm.As<float>()[dim - 1], 0.5f);
    EXPECT_NE(gate.q.As<float>()[0], 0.0f);
    EXPECT_LT(std::abs(gate.k.As<float>()[0]), 2.0f);
  }
  // Layers and heads have their own.
  EXPECT_NE(gates.layer(0).q.As<float>()[0], gates.layer(1).q.As<float>()[0]);
  EXPECT_NE(gates.layer(0).q.Row<float>(0)[0],
            gates.layer(0).q.Row<float>(1)[0]);
}

TEST_F(GatesTest, SayForWhichBlocksTheyWereTrained) {
  EXPECT_EQ(Gates::ReadBlockTokens(folder_.path()).value(), 0) << "no gates";
  EXPECT_EQ(Gates::ReadBlockTokens({}).value(), 0) << "no folder";
  WriteTinyGates(config_, folder_.path());
  EXPECT_EQ(Gates::ReadBlockTokens(folder_.path()).value(), 0) << "no word";
  WriteTinyGates(config_, folder_.path(), "16");
  EXPECT_EQ(Gates::ReadBlockTokens(folder_.path()).value(), 16);
  EXPECT_TRUE(Gates::Load(folder_.path(), config_).ok());
  for (const char* wrong : {"0", "-16", "16 tokens", "many"}) {
    WriteTinyGates(config_, folder_.path(), wrong);
    EXPECT_EQ(ErrorOf(ErrorCode::kCorrupt),
              fmt::format("{}: metadata block_tokens must be a whole number "
                          "above 0, is \"{}\"",
                          File(), wrong));
  }
}

TEST_F(GatesTest, MoveToADevice) {
  WriteTinyGates(config_, folder_.path());
  const Gates here = Gates::Load(folder_.path(), config_).value();
  Gates there = Gates::Load(folder_.path(), config_).value();
  const std::byte* before = there.layer(0).q.data;
  const auto backend = MakeCpuBackend({});
  ASSERT_TRUE(there.Upload(*backend).ok());
  EXPECT_NE(there.layer(0).q.data, before);
  const auto bytes_of = [](const View& view) {
    return std::vector<std::byte>(
        view.data, view.data + view.num_elements() * DtypeBytes(view.dtype));
  };
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    const GateWeights &a = here.layer(layer), &b = there.layer(layer);
    EXPECT_EQ(bytes_of(a.q), bytes_of(b.q));
    EXPECT_EQ(bytes_of(a.k), bytes_of(b.k));
    EXPECT_EQ(bytes_of(a.q_norm), bytes_of(b.q_norm));
    EXPECT_EQ(bytes_of(a.k_norm), bytes_of(b.k_norm));
  }
}

TEST_F(GatesTest, MustBeThere) {
  EXPECT_EQ(ErrorOf(ErrorCode::kNotFound),
            fmt::format("{}: must hold gates, in {} or among the checkpoint's "
                        "tensors, has none",
                        folder_.path().string(), kFile));
  std::ofstream(folder_.path() / "attn_gate_weights.pth") << "pickled";
  EXPECT_TRUE(ErrorOf(ErrorCode::kNotFound)
                  .ends_with("; attn_gate_weights.pth is not read: "
                             "scripts/convert_gates of Winnow's sources saves "
                             "its tensors as safetensors"));
}

TEST_F(GatesTest, MustBeOfTheModelsShape) {
  ModelConfig other = config_;
  other.num_q_heads *= 2;
  WriteTinyGates(other, folder_.path());
  const int64_t dim = config_.head_dim, heads = config_.num_kv_heads;
  const int64_t group = config_.num_q_heads / heads;
  EXPECT_EQ(
      ErrorOf(ErrorCode::kCorrupt),
      fmt::format("{}: tensor model.layers.0.self_attn.attn_gate."
                  "attngate_linear_q.weight: must have shape "
                  "[{}, {}, {}, {}], has [{}, {}, {}, {}]",
                  File(), heads, group, dim, dim, heads, 2 * group, dim, dim));
}

TEST_F(GatesTest, MustBeOfAllLayers) {
  ModelConfig other = config_;
  other.num_layers -= 1;
  WriteTinyGates(other, folder_.path());
  const std::string error = ErrorOf(ErrorCode::kCorrupt);
  EXPECT_NE(error.find(fmt::format("model.layers.{}.", other.num_layers)),
            std::string::npos)
      << error;
  EXPECT_TRUE(error.ends_with("is missing")) << error;
}

TEST_F(GatesTest, MustBeFinite) {
  const std::pair<std::string_view, std::string_view> wrong[] = {
      {"\xc0\x7f", "nan"}, {"\x80\x7f", "inf"}};
  for (const auto& [bytes, text] : wrong) {
    WriteTinyGates(config_, folder_.path());
    {
      // The last number of the last tensor, as bfloat16.
      std::fstream file(File(),
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-2, std::ios::end);
      file.write(bytes.data(), 2);
    }
    EXPECT_EQ(ErrorOf(ErrorCode::kCorrupt),
              fmt::format(
                  "{}: tensor model.layers.{}.self_attn.attn_gate."
                  "attngate_knorm.weight: number {} must be finite, is {}",
                  File(), config_.num_layers - 1, config_.head_dim - 1, text));
  }
}

TEST_F(GatesTest, MayBeAmongTheCheckpointsTensors) {
  WriteTinyGates(config_, folder_.path());
  // The same tensors as a checkpoint: the model itself would lack its own.
  std::filesystem::rename(folder_.path() / kFile,
                          folder_.path() / "model.safetensors");
  EXPECT_TRUE(Gates::Load(folder_.path(), config_).ok());
}

TEST_F(GatesTest, AreNoWeightsOfTheModel) {
  EXPECT_TRUE(IsGateTensor(
      "model.layers.3.self_attn.attn_gate.attngate_linear_k.weight"));
  EXPECT_FALSE(IsGateTensor("model.layers.3.mlp.gate_proj.weight"));
}

}  // namespace
}  // namespace winnow
