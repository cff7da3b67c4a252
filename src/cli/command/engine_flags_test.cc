#include "cli/command/engine_flags.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Texts = std::vector<std::string>;

TEST(EngineFlagsTest, SplitsSelectionsButNotTheirSettings) {
  EXPECT_EQ(*SplitSelects("auto"), Texts{"auto"});
  EXPECT_EQ(*SplitSelects("dense,auto"), (Texts{"dense", "auto"}));
  EXPECT_EQ(*SplitSelects("quest:budget=256,sink=4,dense,quest:budget=1K"),
            (Texts{"quest:budget=256,sink=4", "dense", "quest:budget=1K"}));
  for (const char* wrong : {"", "dense,", ",dense", "dense,auto,dense"}) {
    EXPECT_FALSE(SplitSelects(wrong).ok()) << wrong;
  }
  EXPECT_EQ(SplitSelects("dense,dense").error().message,
            "--select must name each selection once, has \"dense\" 2 times in "
            "\"dense,dense\"");
}

TEST(EngineFlagsTest, AutoIsWhatTheCheckpointAsksFor) {
  EXPECT_EQ(*ResolveSelect("auto", std::nullopt), "dense");
  const NativeSelector native = std::string("infllm-v2:block=64");
  EXPECT_EQ(*ResolveSelect("auto", native), "infllm-v2:block=64");
  EXPECT_EQ(*ResolveSelect("mean", native), "mean");
  EXPECT_EQ(*SelectorsOf({"auto", "mean"}, std::nullopt),
            (Texts{"dense", "mean"}));
  EXPECT_EQ(*SelectorsOf({"auto"}, std::nullopt), Texts{});
}

TEST(EngineFlagsTest, WhatACheckpointAsksForInVainCanBeLeftOut) {
  const NativeSelector native =
      MakeError(ErrorCode::kUnsupported, "config.json: field x: is 3");
  const auto selectors = SelectorsOf({"auto"}, native);
  ASSERT_FALSE(selectors.ok());
  EXPECT_EQ(selectors.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(selectors.error().message,
            "config.json: field x: is 3; --select dense reads everything");
  EXPECT_EQ(*SelectorsOf({"dense"}, native), Texts{});
}

TEST(EngineFlagsTest, ACacheBudgetIsTokensOrAMultiple) {
  EngineFlags flags;
  EXPECT_FALSE(ParseEngineOptions(flags)->cache_budget.has_value());
  flags.host_kv = "1GiB";
  flags.cache_budget = "8K";
  EXPECT_EQ(ParseEngineOptions(flags)->cache_budget->tokens, 8192);
  flags.cache_budget = "2.5x";
  EXPECT_EQ(ParseEngineOptions(flags)->cache_budget->tokens, 0);
  EXPECT_EQ(ParseEngineOptions(flags)->cache_budget->times, 2.5);
  for (const char* wrong :
       {"0", "0x", "-4x", "x", "4y", "4xx", "infx", "nanx", "1e9x", "1.5"}) {
    flags.cache_budget = wrong;
    const Result<EngineOptions> options = ParseEngineOptions(flags);
    ASSERT_FALSE(options.ok()) << wrong;
    EXPECT_NE(options.error().message.find(fmt::format("is \"{}\"", wrong)),
              std::string::npos)
        << options.error().message;
  }
  flags.cache_budget = "4x";
  flags.host_kv = "";
  EXPECT_EQ(ParseEngineOptions(flags).error().message,
            "--cache-budget needs --host-kv, where the rest lies; it is not "
            "given");
}

TEST(EngineFlagsTest, FarPagesAreCopiedOrComputedAsOneSays) {
  EngineFlags flags;
  EXPECT_FALSE(ParseEngineOptions(flags)->restore_rates.has_value());
  const FarPages pages = {.host_bytes = int64_t{1} << 40, .num_tokens = 32};
  flags.restore = "copy";
  EXPECT_TRUE(RestorePays(*ParseEngineOptions(flags)->restore_rates, pages));
  flags.restore = "compute";
  EXPECT_FALSE(RestorePays(*ParseEngineOptions(flags)->restore_rates, pages));
}

}  // namespace
}  // namespace winnow
