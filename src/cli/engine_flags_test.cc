#include "cli/engine_flags.h"

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

}  // namespace
}  // namespace winnow
