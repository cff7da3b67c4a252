#include "model/config/sparse_config.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

Result<std::string> ReadSparse(std::string_view text) {
  return ReadSparseConfig(JsonFields::Parse(text, "config.json", {}).value());
}

std::string SparseFailure(std::string_view text) {
  const Result<std::string> spec = ReadSparse(text);
  return spec.ok() ? *spec : spec.error().message;
}

TEST(SparseConfigTest, ThePublishedNumbers) {
  constexpr std::string_view kSpec =
      "infllm-v2:kernel=32,stride=16,block=64,budget=6144,sink=64,"
      "recent=2048,dense_len=8192";
  EXPECT_EQ(
      ReadSparse(R"({"kernel_size": 32, "kernel_stride": 16, "init_blocks": 1,
                     "block_size": 64, "window_size": 2048, "topk": 64,
                     "use_nope": false, "dense_len": 8192})")
          .value(),
      kSpec);
  EXPECT_EQ(ReadSparse("{}").value(), kSpec) << "they are the defaults";
  EXPECT_EQ(ReadSparse(R"({"topk": null, "notes": null})").value(), kSpec);
}

TEST(SparseConfigTest, OtherNumbers) {
  EXPECT_EQ(
      ReadSparse(R"({"kernel_size": 8, "kernel_stride": 4, "init_blocks": 0,
                     "block_size": 32, "window_size": 64, "topk": 3,
                     "dense_len": -1})")
          .value(),
      "infllm-v2:kernel=8,stride=4,block=32,budget=160,sink=0,recent=64,"
      "dense_len=0");
}

TEST(SparseConfigTest, WhatIsUnknownOrUnsupportedIsNamed) {
  EXPECT_EQ(SparseFailure(R"({"use_nope": true})"),
            "config.json: field use_nope: must be false (keys are compressed "
            "after rotation), is true");
  EXPECT_EQ(SparseFailure(R"({"kernel_type": "max"})"),
            "config.json: field kernel_type: must be absent (known are "
            "block_size, dense_len, init_blocks, kernel_size, kernel_stride, "
            "topk, use_nope, window_size), is \"max\"");
  EXPECT_EQ(SparseFailure(R"({"block_size": 16})"),
            "config.json: field block_size: must be a power of two in [32, "
            "4096], is 16");
  EXPECT_EQ(SparseFailure(R"({"kernel_size": 48})"),
            "config.json: field kernel_size: must be a power of two in [1, "
            "4096], is 48");
  EXPECT_EQ(SparseFailure(R"({"kernel_stride": 64})"),
            "config.json: field kernel_stride: must be a power of two in [1, "
            "32], is 64");
  EXPECT_EQ(SparseFailure(R"({"window_size": 100})"),
            "config.json: field window_size: must be a multiple of block_size "
            "(64), is 100");
  EXPECT_EQ(SparseFailure(R"({"topk": 1})"),
            "config.json: field topk: must be an integer in [2, 4096], is 1");
  EXPECT_EQ(SparseFailure(R"({"dense_len": -2})"),
            "config.json: field dense_len: must be an integer in [-1, "
            "16777216], is -2");
  EXPECT_EQ(SparseFailure(R"({"init_blocks": 1.5})"),
            "config.json: field init_blocks: must be an integer in [0, 4096], "
            "is 1.5");
}

}  // namespace
}  // namespace winnow
