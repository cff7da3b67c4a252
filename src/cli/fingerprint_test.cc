#include "cli/fingerprint.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace winnow {
namespace {

uint64_t Of(std::initializer_list<std::string_view> pieces) {
  Fingerprint fingerprint;
  for (const std::string_view piece : pieces) fingerprint.Add(piece);
  return fingerprint.value();
}

TEST(FingerprintTest, PiecesAndTheirBordersCount) {
  EXPECT_EQ(Of({"ab", "c"}), Of({"ab", "c"}));
  EXPECT_NE(Of({"ab", "c"}), Of({"a", "bc"}));
  EXPECT_NE(Of({"ab"}), Of({"ab", ""}));
  EXPECT_NE(Of({"ab"}), Of({"ba"}));
}

TEST(FingerprintTest, OfACheckpointChangesWithWhatMatters) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      ("winnow_fingerprint" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& content) {
    ASSERT_TRUE(WriteFile(folder / name, content).ok());
  };
  const auto fingerprint = [&] {
    return FingerprintOfCheckpoint(folder).value();
  };
  std::string weights(1 << 20, 'w');
  write("config.json", "{}");
  write("model.safetensors", weights);
  const uint64_t before = fingerprint();
  write("README.md", "notes");
  EXPECT_EQ(fingerprint(), before);
  // Training changes weights everywhere; a stretch of 16 KiB is enough.
  weights.replace(weights.size() / 2, 16384, 16384, 'v');
  write("model.safetensors", weights);
  EXPECT_NE(fingerprint(), before);
  write("model.safetensors", std::string(1 << 20, 'w'));
  EXPECT_EQ(fingerprint(), before);
  write("config.json", "{ }");
  EXPECT_NE(fingerprint(), before);
  std::filesystem::remove_all(folder);
  EXPECT_NE(
      FingerprintOfCheckpoint(folder).error().message.find(folder.string()),
      std::string::npos);
}

}  // namespace
}  // namespace winnow
