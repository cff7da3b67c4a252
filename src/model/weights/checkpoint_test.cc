#include "model/weights/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/golden/temporary_folder.h"

namespace winnow {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  // Writes a file with one tensor of two bytes, whose value is its name's
  // first letter.
  void WriteShard(const std::string& file, const std::string& tensor) {
    const std::string header = fmt::format(
        R"({{"{}": {{"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}}})",
        tensor);
    std::string content(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(content.data(), &length, sizeof(length));
    content += header + std::string(2, tensor[0]);
    ASSERT_TRUE(WriteFile(folder_ / file, content).ok());
  }
  void WriteIndex(const std::string& weight_map) {
    ASSERT_TRUE(
        WriteFile(folder_ / "model.safetensors.index.json",
                  R"({"metadata": {}, "weight_map": )" + weight_map + "}")
            .ok());
  }
  // The failure of Open, with the folder's own path taken out.
  std::string Failure() {
    const auto opened = Checkpoint::Open(folder_);
    if (opened.ok()) return "no failure";
    std::string message = opened.error().message;
    const std::string prefix = folder_.string();
    for (size_t at; (at = message.find(prefix)) != std::string::npos;) {
      message.replace(at, prefix.size(), "DIR");
    }
    return message;
  }

  TemporaryFolder temporary_{"checkpoint"};
  const std::filesystem::path& folder_ = temporary_.path();
};

TEST_F(CheckpointTest, OneFileNeedsNoIndex) {
  WriteShard("model.safetensors", "a");
  const Checkpoint opened = Checkpoint::Open(folder_).value();
  ASSERT_NE(opened.Find("a"), nullptr);
  EXPECT_EQ(opened.Find("a")->tensor.bytes[0], std::byte{'a'});
  EXPECT_EQ(opened.Find("b"), nullptr);
}

TEST_F(CheckpointTest, ShardsAreReadThroughTheIndexAndSurviveAMove) {
  WriteShard("one.safetensors", "a");
  WriteShard("two.safetensors", "b");
  WriteIndex(R"({"a": "one.safetensors", "b": "two.safetensors"})");
  Checkpoint opened = Checkpoint::Open(folder_).value();
  const Checkpoint moved = std::move(opened);
  ASSERT_EQ(moved.entries().size(), 2u);
  EXPECT_EQ(moved.Find("b")->tensor.bytes[1], std::byte{'b'});
  EXPECT_EQ(moved.PathOf(*moved.Find("b")), folder_ / "two.safetensors");
}

TEST_F(CheckpointTest, AFolderWithoutWeightsSaysWhatItLacks) {
  EXPECT_EQ(Failure(),
            "DIR: has neither model.safetensors nor "
            "model.safetensors.index.json; only safetensors checkpoints are "
            "read");
}

TEST_F(CheckpointTest, AnIndexThatLiesIsRefused) {
  WriteShard("one.safetensors", "a");
  WriteShard("two.safetensors", "b");
  const std::string index = "DIR/model.safetensors.index.json: ";
  WriteIndex(R"({"a": "one.safetensors", "b": "three.safetensors"})");
  EXPECT_EQ(Failure(),
            "DIR/three.safetensors: cannot open: No such file or directory");
  WriteIndex(R"({"a": "two.safetensors", "b": "one.safetensors"})");
  EXPECT_EQ(Failure(), index +
                           "tensor a must be in two.safetensors, is in "
                           "one.safetensors");
  WriteIndex(R"({"a": "one.safetensors", "c": "one.safetensors"})");
  EXPECT_EQ(Failure(),
            index + "tensor c must be in one.safetensors, is in no shard");
  WriteIndex("3");
  EXPECT_EQ(Failure(), index + "field weight_map: must be an object, is 3");
}

TEST_F(CheckpointTest, ATensorInTwoShardsIsRefused) {
  WriteShard("one.safetensors", "a");
  WriteShard("two.safetensors", "a");
  WriteIndex(R"({"a": "one.safetensors", "b": "two.safetensors"})");
  EXPECT_EQ(Failure(),
            "DIR/two.safetensors: tensor a is also in DIR/one.safetensors");
}

TEST_F(CheckpointTest, NoPathLeavesTheFolder) {
  WriteShard("one.safetensors", "a");
  for (const char* name : {"../one.safetensors", "/etc/passwd", "..", "",
                           "sub/one.safetensors", "one.safetensors\\u0000"}) {
    WriteIndex(fmt::format(R"({{"a": "{}"}})", name));
    EXPECT_NE(Failure().find("field weight_map.a: must be the name of a file "
                             "in the folder"),
              std::string::npos)
        << name << ": " << Failure();
  }
}

TEST_F(CheckpointTest, AnEmptyFileIsNoCheckpoint) {
  ASSERT_TRUE(WriteFile(folder_ / "model.safetensors", "").ok());
  EXPECT_EQ(Failure(),
            "DIR/model.safetensors: a safetensors file has at least 8 bytes, "
            "this one 0");
}

}  // namespace
}  // namespace winnow
