#include "cli/serve/vllm_flags.h"

#include <gtest/gtest.h>

#include "cli/command/command.h"

namespace winnow {
namespace {

class VllmFlagsTest : public testing::Test {
 protected:
  VllmFlagsTest() { AddVllmFlags(serve_, &engine_, &flags_); }

  // The complaint, "" where there is none.
  std::string Parse(std::vector<std::string> words) {
    words.insert(words.begin(), {"winnow", "serve"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    const Result<bool> parsed =
        program_.Parse(static_cast<int>(argv.size()), argv.data());
    return parsed.ok() ? "" : parsed.error().message;
  }

  EngineFlags engine_;
  VllmFlags flags_;
  Command program_{"A program", "winnow 1", "The end"};
  Command& serve_ = program_.AddCommand("serve", "Serves");
};

TEST_F(VllmFlagsTest, WhatMeansTheSameIsTaken) {
  EXPECT_EQ(Parse({"--kv-cache-memory-bytes", "2G", "--kv-offloading-size",
                   "1.5", "--no-enable-prefix-caching"}),
            "");
  EXPECT_EQ(engine_.device_kv, "2147483648B");
  EXPECT_EQ(engine_.host_kv, "1.5GiB");
  EXPECT_FALSE(flags_.prefix_caching);
  EXPECT_TRUE(flags_.idle.empty());
}

TEST_F(VllmFlagsTest, TheLastOfTwoHolds) {
  EXPECT_EQ(Parse({"--no-enable-prefix-caching", "--enable-prefix-caching"}),
            "");
  EXPECT_TRUE(flags_.prefix_caching);
}

TEST_F(VllmFlagsTest, WhatChangesNothingSaysSo) {
  EXPECT_EQ(Parse({"--trust-remote-code", "-tp", "1", "--tool-call-parser",
                   "hermes"}),
            "");
  ASSERT_EQ(flags_.idle.size(), 3);
  EXPECT_EQ(flags_.idle[0],
            "--trust-remote-code has no effect: no code of a checkpoint is "
            "ever run");
  EXPECT_TRUE(flags_.idle[1].starts_with("--tensor-parallel-size has no "));
}

TEST_F(VllmFlagsTest, AReasoningParserIsAuto) {
  EXPECT_EQ(Parse({"--reasoning-parser", "none"}), "");
  EXPECT_FALSE(flags_.splits_thoughts);
  EXPECT_TRUE(flags_.idle.empty());
  VllmFlags of_parser;
  Command program("A program", "winnow 1", "The end");
  Command& serve = program.AddCommand("serve", "Serves");
  AddVllmFlags(serve, &engine_, &of_parser);
  const char* words[] = {"winnow", "serve", "--reasoning-parser", "qwen3"};
  ASSERT_TRUE(program.Parse(4, const_cast<char**>(words)).ok());
  EXPECT_TRUE(of_parser.splits_thoughts);
  ASSERT_EQ(of_parser.idle.size(), 1);
  EXPECT_TRUE(of_parser.idle[0].starts_with("--reasoning-parser qwen3 is "));
}

TEST_F(VllmFlagsTest, WhatWouldChangeSomethingIsRefused) {
  EXPECT_EQ(Parse({"-tp", "2"}),
            "--tensor-parallel-size must be 1, is \"2\": a model runs on one "
            "device, several are not built yet");
}

TEST_F(VllmFlagsTest, AnotherKindOfKvIsRefused) {
  EXPECT_EQ(Parse({"--kv-cache-dtype", "fp8"}),
            "--kv-cache-dtype must be auto, is \"fp8\": KV is kept as --dtype "
            "says");
}

TEST_F(VllmFlagsTest, ASizeHasVllmsUnits) {
  EXPECT_EQ(*ParseVllmBytes("1073741824"), 1 << 30);
  EXPECT_EQ(*ParseVllmBytes("1G"), 1 << 30);
  EXPECT_EQ(*ParseVllmBytes("1.5g"), 1'500'000'000);
  EXPECT_EQ(*ParseVllmBytes("3k"), 3000);
  for (const char* bad :
       {"", "0", "-1", "1GiB", "1x", "G", "nan", "9999999T"}) {
    EXPECT_FALSE(ParseVllmBytes(bad).ok()) << bad;
  }
  EXPECT_EQ(Parse({"--kv-offloading-size", "2GiB"}),
            "--kv-offloading-size must be a number of GiB, is \"2GiB\"");
}

}  // namespace
}  // namespace winnow
