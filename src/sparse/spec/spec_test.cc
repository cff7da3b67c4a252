#include "sparse/spec/spec.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(SelectSpecTest, SplitsNameAndParameters) {
  const SelectSpec spec = *ParseSelectSpec("quest:budget=1/16,block=32");
  EXPECT_EQ(spec.name, "quest");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"budget", "1/16"}, {"block", "32"}};
  EXPECT_EQ(spec.parameters, expected);
  EXPECT_TRUE(ParseSelectSpec("mean")->parameters.empty());
}

TEST(SelectSpecTest, RefusesWhatIsNoSpec) {
  for (const char* text :
       {"", ":", "mean:", "mean:budget", "mean:budget=", "mean:=4",
        "mean:a=1,,b=2", "mean:a=1,a=2", "mean:a=1,"}) {
    const auto spec = ParseSelectSpec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.error().message.find('\n'), std::string::npos);
  }
}

TEST(SelectSpecTest, ReadsAmounts) {
  EXPECT_EQ(ParseAmount("b", "4K")->TokensOf(100), 4096);
  EXPECT_EQ(ParseAmount("b", "1/16")->TokensOf(1600), 100);
  EXPECT_EQ(ParseAmount("b", "1.56%")->TokensOf(10000), 156);
  EXPECT_EQ(ParseAmount("b", "100%")->TokensOf(77), 77);
  for (const char* text : {"", "x", "-1", "0%", "0/4", "3/2", "1/0", "101%",
                           "1/2/3", "4KB", "1e3", "nan", "1.5"}) {
    EXPECT_FALSE(ParseAmount("b", text).ok()) << text;
  }
}

TEST(SelectSpecTest, ReadsLayers) {
  const std::vector<bool> first_two = {true, true, false, false};
  EXPECT_EQ(*ParseLayers("l", "0-1", 4), first_two);
  const std::vector<bool> some = {true, false, true, true};
  EXPECT_EQ(*ParseLayers("l", "0+2-3", 4), some);
  EXPECT_EQ(*ParseLayers("l", "none", 4), std::vector<bool>(4, false));
  for (const char* text : {"", "4", "1-4", "2-1", "a", "0+", "+0", "-", "0.5",
                           "99999999999", "0-99999999999", "99999999999-1"}) {
    EXPECT_FALSE(ParseLayers("l", text, 4).ok()) << text;
  }
}

TEST(SelectSpecTest, FindsTheNearestName) {
  EXPECT_EQ(NearestName("qest", {"mean", "quest", "window"}), "quest");
  EXPECT_EQ(NearestName("bugdet", {"block", "budget"}), "budget");
}

}  // namespace
}  // namespace winnow
