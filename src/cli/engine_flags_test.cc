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
            "select must name each selection once, has \"dense\" 2 times in "
            "\"dense,dense\"");
}

TEST(EngineFlagsTest, RefusesSelectionsThatThisBuildDoesNotHave) {
  EXPECT_TRUE(CheckSelect("dense", "infllm-v2").ok());
  EXPECT_TRUE(CheckSelect("auto", std::nullopt).ok());
  EXPECT_EQ(CheckSelect("quest", std::nullopt).error().message,
            "select must be auto or dense in this build, is \"quest\"");
  EXPECT_FALSE(CheckSelect("auto", "infllm-v2").ok());
}

}  // namespace
}  // namespace winnow
