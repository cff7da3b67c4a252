#include "model/weights/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

namespace winnow {
namespace {

// A file as the format's description lays it out.
std::string FileOf(std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof(length));
  return file.append(header).append(data);
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string FileFailure(const std::string& file) {
  const auto parsed = ParseSafetensors(BytesOf(file), "m.safetensors");
  return parsed.ok() ? "no failure" : parsed.error().message;
}

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheirBytes) {
  // A header may end in spaces; a scalar has no dimension; one dimension may
  // be 0.
  const std::string file = FileOf(
      R"({"__metadata__": {"format": "pt"},
          "b": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [4, 8]},
          "empty": {"dtype": "F32", "shape": [3, 0], "data_offsets": [4, 4]},
          "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}  )",
      "abcdefgh");
  const auto tensors = ParseSafetensors(BytesOf(file), "m").value();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_TRUE(tensors[0].shape.empty());
  EXPECT_EQ(std::memcmp(tensors[0].bytes.data(), "abcd", 4), 0);
  EXPECT_EQ(tensors[1].name, "empty");
  EXPECT_TRUE(tensors[1].bytes.empty());
  EXPECT_EQ(tensors[2].name, "b");
  EXPECT_EQ(tensors[2].dtype, "BF16");
  EXPECT_EQ(tensors[2].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(std::memcmp(tensors[2].bytes.data(), "efgh", 4), 0);
}

TEST(SafetensorsTest, MetadataIsText) {
  const auto read = [](std::string_view header, const std::string& name) {
    return ReadSafetensorsMetadata(BytesOf(FileOf(header, "")), "m", name);
  };
  constexpr std::string_view kHeader =
      R"({"__metadata__": {"block_tokens": "16", "number": 16}})";
  EXPECT_EQ(read(kHeader, "block_tokens").value(), "16");
  EXPECT_EQ(read(kHeader, "format").value(), "");
  EXPECT_EQ(read("{}", "format").value(), "");
  EXPECT_FALSE(read(kHeader, "number").ok());
  EXPECT_FALSE(read(R"({"__metadata__": "16"})", "block_tokens").ok());
  EXPECT_FALSE(read("{", "block_tokens").ok());
}

// Whatever the length of what is left of a file, it is refused, and under
// asan never read past its end.
TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string file =
      FileOf(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
             "abcdefgh");
  ASSERT_EQ(FileFailure(file), "no failure");
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<char> part(file.begin(),
                                 file.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ParseSafetensors(std::as_bytes(std::span(part)), "m").ok())
        << size;
  }
  EXPECT_EQ(FileFailure(file.substr(0, 7)),
            "m.safetensors: a safetensors file has at least 8 bytes, this one "
            "7");
  EXPECT_EQ(FileFailure(file.substr(0, 60)),
            "m.safetensors: safetensors header length must be at most 52 bytes "
            "in a file of 60, is 61");
  EXPECT_EQ(FileFailure(file.substr(0, 76)),
            "m.safetensors: tensor a ends at byte 77, the file at byte 76: it "
            "is cut off");
}

TEST(SafetensorsTest, AHugeHeaderLengthIsRefused) {
  std::string file = FileOf("{}", "");
  std::memset(file.data(), 0xff, 8);
  EXPECT_EQ(FileFailure(file),
            "m.safetensors: safetensors header length must be at most 2 bytes "
            "in a file of 10, is 18446744073709551615");
}

// One tensor's entry, over eight bytes of data.
std::string EntryFailure(std::string_view entry) {
  return FileFailure(FileOf(fmt::format(R"({{"a": {}}})", entry), "abcdefgh"));
}

TEST(SafetensorsTest, WrongEntriesNameTensorAndField) {
  EXPECT_EQ(EntryFailure("3"),
            "m.safetensors: field a: must be an object, is 3");
  EXPECT_EQ(EntryFailure(R"({"dtype": "F4", "shape": [16],
                             "data_offsets": [0, 8]})"),
            "m.safetensors: field a.dtype: must be one of BOOL, U8, I8, "
            "F8_E5M2, F8_E4M3, F8_E8M0, I16, U16, F16, BF16, I32, U32, F32, "
            "F64, I64, U64, is \"F4\"");
  EXPECT_EQ(EntryFailure(R"({"dtype": "F32", "data_offsets": [0, 8]})"),
            "m.safetensors: field a.shape: must be a list, is missing");
  EXPECT_NE(EntryFailure(R"({"dtype": "F32", "shape": [-2],
                             "data_offsets": [0, 8]})")
                .find("field a.shape[0]: must be an integer in [0, "),
            std::string::npos);
  EXPECT_NE(EntryFailure(R"({"dtype": "F32", "shape": [2]})")
                .find("field a.data_offsets: must be [begin, end]"),
            std::string::npos);
  EXPECT_NE(EntryFailure(R"({"dtype": "F32", "shape": [2],
                             "data_offsets": [8, 0]})")
                .find("begin <= end <= 8 (the bytes that follow the header), "
                      "is [8,0]"),
            std::string::npos);
  EXPECT_EQ(EntryFailure(R"({"dtype": "BF16", "shape": [3],
                             "data_offsets": [0, 8]})"),
            "m.safetensors: field a.data_offsets: must be 6 bytes apart for "
            "BF16 [3], is [0,8]");
}

TEST(SafetensorsTest, TheRankIsLimited) {
  EXPECT_EQ(EntryFailure(R"({"dtype": "U8", "shape": [1,1,1,1,1,1,1,1,8],
                             "data_offsets": [0, 8]})"),
            "m.safetensors: field a.shape: must be a list of at most 8 "
            "integers, is [1,1,1,1,1,1,1,1,8]");
}

TEST(SafetensorsTest, AProductThatOverflowsIsNoSize) {
  // 2^48 * 2^14 * 4 = 2^64, which would wrap to 0.
  EXPECT_EQ(EntryFailure(R"({"dtype": "F32", "shape": [281474976710656, 16384],
                             "data_offsets": [0, 0]})"),
            "m.safetensors: field a.data_offsets: must be more than 2^63 bytes "
            "apart for F32 [281474976710656, 16384], is [0,0]");
}

TEST(SafetensorsTest, OverlapsGapsAndRepeatsAreRefused) {
  const auto two = [](int a_end, int b_begin, int b_end) {
    return FileFailure(FileOf(
        fmt::format(
            R"({{"a": {{"dtype": "U8", "shape": [{}], "data_offsets": [0, {}]}},
                 "b": {{"dtype": "U8", "shape": [{}],
                        "data_offsets": [{}, {}]}}}})",
            a_end, a_end, b_end - b_begin, b_begin, b_end),
        "abcdefgh"));
  };
  EXPECT_EQ(two(4, 4, 8), "no failure");
  EXPECT_EQ(two(5, 4, 8), "m.safetensors: tensors a and b overlap by 1 bytes");
  EXPECT_EQ(two(8, 0, 8), "m.safetensors: tensors a and b overlap by 8 bytes");
  EXPECT_EQ(two(3, 4, 8),
            "m.safetensors: 1 bytes before tensor b belong to no tensor");
  EXPECT_EQ(EntryFailure(R"({"dtype": "U8", "shape": [6],
                             "data_offsets": [2, 8]})"),
            "m.safetensors: 2 bytes before tensor a belong to no tensor");
  EXPECT_EQ(two(4, 4, 6),
            "m.safetensors: the last 2 bytes belong to no tensor");
  EXPECT_EQ(FileFailure(FileOf(
                R"({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]},
                    "a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})",
                "")),
            "m.safetensors: the name a occurs twice in one object");
}

}  // namespace
}  // namespace winnow
