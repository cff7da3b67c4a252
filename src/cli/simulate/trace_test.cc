#include "cli/simulate/trace.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(TraceTest, LevelsAreThousandthsInOrderWithTheBudgetAmongThem) {
  EXPECT_EQ(*ParseLevels("2x"), (std::vector<int>{1000, 2000}));
  EXPECT_EQ(*ParseLevels("4x,0.5x,1x,1.25x"),
            (std::vector<int>{500, 1000, 1250, 4000}));
  EXPECT_EQ(*ParseLevels("1000x,0.001x"), (std::vector<int>{1, 1000, 1000000}));
  EXPECT_EQ(*ParseLevels("3x,3x,3.0001x"), (std::vector<int>{1000, 3000}));
}

TEST(TraceTest, ALevelThatIsNoneIsAnError) {
  for (const char* text : {"", "x", "2", "2x,", ",2x", "0x", "-1x", "0.0001x",
                           "1001x", "nanx", "infx", "2xx", "1e99x"}) {
    const Result<std::vector<int>> levels = ParseLevels(text);
    ASSERT_FALSE(levels.ok()) << text;
    EXPECT_EQ(levels.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(levels.error().message.find("--levels"), std::string::npos);
  }
  std::string many = "2x";
  for (int i = 3; i < 20; ++i) many += fmt::format(",{}x", i);
  EXPECT_EQ(ParseLevels(many).error().message,
            "--levels must be at most 16, are 19");
}

}  // namespace
}  // namespace winnow
