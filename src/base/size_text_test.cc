#include "base/size_text.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(SizeTextTest, ParsesBytesWithUnitsOnly) {
  EXPECT_EQ(*ParseBytes("64MiB"), 64 << 20);
  EXPECT_EQ(*ParseBytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(*ParseBytes("0B"), 0);
  EXPECT_EQ(*ParseBytes("0"), 0);
  for (const char* bad : {"", "64", "64MB", "-1GiB", "x", "1e3MiB", "nanGiB",
                          "infGiB", "99999999999TiB", "1GiB ", " 1GiB"}) {
    EXPECT_FALSE(ParseBytes(bad).ok()) << bad;
  }
  EXPECT_NE(ParseBytes("64").error().message.find("is \"64\""),
            std::string::npos);
}

TEST(SizeTextTest, ParsesTokens) {
  EXPECT_EQ(*ParseTokens("2048"), 2048);
  EXPECT_EQ(*ParseTokens("4K"), 4096);
  EXPECT_EQ(*ParseTokens("1.5K"), 1536);
  EXPECT_EQ(*ParseTokens("1M"), 1 << 20);
  EXPECT_EQ(*ParseTokens("128k"), 128'000);
  EXPECT_EQ(*ParseTokens("25.6k"), 25'600);
  EXPECT_EQ(*ParseTokens("1.001k"), 1001);
  EXPECT_EQ(*ParseTokens("1m"), 1'000'000);
  for (const char* bad : {"", "1.3", "1.2345k", "-4", "4G", "4kk", "K", "k"}) {
    EXPECT_FALSE(ParseTokens(bad).ok()) << bad;
  }
}

TEST(SizeTextTest, FormatsForPeople) {
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(3 << 19), "1.5 MiB");
  EXPECT_EQ(FormatBytes(int64_t{200} << 30), "200 GiB");
}

}  // namespace
}  // namespace winnow
