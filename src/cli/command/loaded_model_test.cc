#include "cli/command/loaded_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "backend/forwarding.h"
#include "cli/command/golden_tokenizers.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

using Ids = std::vector<int32_t>;

// A tiny model whose tokenizer has more tokens than it has rows.
class LoadedModelTest : public testing::Test {
 protected:
  LoadedModelTest() {
    WriteTinyModel(ReadTinyCase("llama"), folder_.path(), {});
    std::filesystem::copy(kTokenizers / "llama3", folder_.path());
    flags_.model = folder_.path().string();
    flags_.device = "cpu";
    flags_.threads = 1;
  }

  // What opening it prints, and whether it opens.
  std::string Said(bool quiet) {
    flags_.quiet = quiet;
    testing::internal::CaptureStderr();
    const Result<LoadedModel> loaded = OpenModel(flags_);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return testing::internal::GetCapturedStderr();
  }

  TemporaryFolder folder_{"loaded_model"};
  EngineFlags flags_;
};

TEST_F(LoadedModelTest, TokensWithoutRowsAreNotedAndOpenAllTheSame) {
  const Tokenizer tokenizer = Tokenizer::Load(folder_.path()).value();
  const LoadedModel loaded = OpenModel(flags_).value();
  const int vocab_size = loaded.model->config().vocab_size;
  ASSERT_GT(tokenizer.vocab_size(), vocab_size);
  const int last = tokenizer.vocab_size() - 1;
  EXPECT_EQ(Said(/*quiet=*/false),
            fmt::format("winnow: {}: token \"{}\" has the id {}, the model "
                        "has rows for ids below {} (vocab_size): text with "
                        "such tokens will be refused\n",
                        (folder_.path() / "tokenizer.json").string(),
                        tokenizer.TokenText(last).value(), last, vocab_size));
  EXPECT_EQ(Said(/*quiet=*/true), "");
}

TEST_F(LoadedModelTest, ATokenWithoutARowIsRefusedWhereItIsUsed) {
  const Tokenizer tokenizer = Tokenizer::Load(kTokenizers / "llama3").value();
  EXPECT_TRUE(CheckTokenRows(Ids{}, tokenizer, 5, "f").ok());
  EXPECT_TRUE(CheckTokenRows(Ids{0, 4}, tokenizer, 5, "f").ok());
  const Status refused = CheckTokenRows(Ids{4, 5, 6}, tokenizer, 5, "f:3");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(refused.error().message,
            fmt::format("f:3: token \"{}\" must have an id below 5 (the "
                        "model's vocab_size), has 5",
                        tokenizer.TokenText(5).value()));
}

TEST_F(LoadedModelTest, FaultsOfTheFilesAreNoUsageErrors) {
  flags_.model = "/nowhere";
  EXPECT_EQ(OpenModel(flags_).error().code, ErrorCode::kNotFound);
  flags_.model = folder_.path().string();
  std::filesystem::remove(folder_.path() / "tokenizer.json");
  const Result<LoadedModel> without = OpenModel(flags_);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().message.find("tokenizer.json"), std::string::npos);
  flags_.dtype = "int8";
  EXPECT_EQ(OpenModel(flags_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(LoadedModelTest, ThePoolIsWhatIsWantedOrWhatThereIs) {
  const LoadedModel loaded = OpenModel(flags_).value();
  EXPECT_GT(loaded.load_ms, 0);
  const int64_t page_bytes =
      kPageTokens *
      KvBytesPerToken(loaded.model->config(), loaded.model->dtypes().kv);
  EXPECT_EQ(KvBytesFor(loaded, 3), 3 * page_bytes);
  EXPECT_EQ(KvBytesFor(loaded, int64_t{1} << 40),
            DefaultKvBytes(loaded.backend->attributes(), *loaded.model));
}

class DeviceApart : public ForwardingBackend {
 public:
  explicit DeviceApart(std::unique_ptr<Backend> real)
      : ForwardingBackend(std::move(real)),
        attributes_(ForwardingBackend::attributes()) {
    attributes_.device_is_host = false;
  }
  const BackendAttributes& attributes() const override { return attributes_; }

 private:
  BackendAttributes attributes_;
};

TEST_F(LoadedModelTest, AServerTakesAllOfADeviceAndOfTheHostWhatItMayUse) {
  LoadedModel loaded = OpenModel(flags_).value();
  EXPECT_EQ(ServedKvBytes(loaded, 3), KvBytesFor(loaded, 3));
  loaded.backend = std::make_unique<DeviceApart>(std::move(loaded.backend));
  EXPECT_EQ(ServedKvBytes(loaded, 3),
            DefaultKvBytes(loaded.backend->attributes(), *loaded.model));
  EXPECT_GT(ServedKvBytes(loaded, 3), KvBytesFor(loaded, 3));
}

TEST_F(LoadedModelTest, AGpuIsNoDeviceForFiguresBesideTheCpusRoofs) {
  flags_.device = "cuda:1";
  const auto refused = MakeCpuBackendFor(flags_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  flags_.device = "auto";
  EXPECT_EQ((*MakeCpuBackendFor(flags_))->attributes().name, "cpu");
}

}  // namespace
}  // namespace winnow
