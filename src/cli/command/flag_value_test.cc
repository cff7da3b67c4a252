#include "cli/command/flag_value.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(FlagValueTest, WholeNumbersAreDecimalDigitsInTheRange) {
  int value = -1;
  const TakeValue take = WholeNumber(1, 20, &value);
  EXPECT_EQ(take("20"), "");
  EXPECT_EQ(value, 20);
  for (const char* text : {"0", "21", "-1", "1.0", "many", "", "1 ", " 1", "+1",
                           "0x1", "99999999999999999999"}) {
    EXPECT_EQ(
        take(text),
        fmt::format("must be a whole number in [1, 20], is \"{}\"", text));
  }
  EXPECT_EQ(value, 20);
}

TEST(FlagValueTest, WholeNumbersOf64Bits) {
  uint64_t value = 0;
  const TakeValue take = WholeNumber(0, UINT64_MAX, &value);
  EXPECT_EQ(take("18446744073709551615"), "");
  EXPECT_EQ(value, UINT64_MAX);
  EXPECT_NE(take("18446744073709551616"), "");
  EXPECT_NE(take("-1"), "");
}

TEST(FlagValueTest, TokensMayHaveAUnit) {
  int value = -1;
  const TakeValue take = Tokens(1, 9000, &value);
  EXPECT_EQ(take("8K"), "");
  EXPECT_EQ(value, 8192);
  EXPECT_EQ(take("8k"), "");
  EXPECT_EQ(value, 8000);
  for (const char* text : {"0", "9001", "9K", "-1", "", "many"}) {
    EXPECT_EQ(take(text),
              fmt::format("must be a number of tokens in [1, 9000] (\"4K\"), "
                          "is \"{}\"",
                          text));
  }
  EXPECT_EQ(value, 8000);
}

TEST(FlagValueTest, AShareIsAboveZeroAndAtMostOne) {
  std::optional<double> value;
  const TakeValue take = Share(&value);
  EXPECT_EQ(take("1"), "");
  EXPECT_EQ(value, 1.0);
  EXPECT_EQ(take("0.85"), "");
  for (const char* text : {"0", "-0.5", "1.01", "90%", "nan", "", "0.9x"}) {
    EXPECT_EQ(
        take(text),
        fmt::format("must be a number above 0 and at most 1, is \"{}\"", text));
  }
  EXPECT_EQ(value, 0.85);
}

TEST(FlagValueTest, AWordIsOneOfThese) {
  std::string value = "none";
  const TakeValue take = OneOf({"red", "blue"}, &value);
  EXPECT_EQ(take("Red"), "must be one of red, blue, is \"Red\"");
  EXPECT_EQ(value, "none");
  EXPECT_EQ(take("blue"), "");
  EXPECT_EQ(value, "blue");
}

TEST(FlagValueTest, NumbersAreShownAsTheyWereTyped) {
  std::optional<float> value;
  const TakeValue take = Number({0, 1}, &value);
  EXPECT_EQ(take("-0.1"), "must be a number in [0, 1], is \"-0.1\"");
  for (const char* text : {"1.5", "nan", "inf", "0.5x", "", "half"}) {
    EXPECT_EQ(take(text),
              fmt::format("must be a number in [0, 1], is \"{}\"", text));
  }
  EXPECT_FALSE(value.has_value());
  EXPECT_EQ(take("0.1"), "");
  EXPECT_EQ(value, 0.1f);
  EXPECT_EQ(take("1e-3"), "");
}

TEST(FlagValueTest, ANumberHasBothBounds) {
  std::optional<double> value;
  const TakeValue take = NumberIn(1e-3, 1e9, &value);
  for (const char* text :
       {"0", "1e-300", "0.0009", "1e300", "nan", "inf", ""}) {
    EXPECT_EQ(take(text),
              fmt::format("must be a number in [0.001, 1000000000], is \"{}\"",
                          text));
  }
  EXPECT_FALSE(value);
  EXPECT_EQ(take("0.001"), "");
  EXPECT_EQ(value, 0.001);
  EXPECT_EQ(take("1e9"), "");
  EXPECT_EQ(value, 1e9);
}

TEST(FlagValueTest, APartOfANumberIsANumberToo) {
  double value = -1;
  const TakeValue take = NumberUpTo(86400, &value);
  for (const char* text : {"-1", "nan", "inf", "86400.5", "1s", ""}) {
    EXPECT_EQ(take(text),
              fmt::format("must be a number in [0, 86400], is \"{}\"", text));
  }
  EXPECT_EQ(value, -1);
  EXPECT_EQ(take("0.25"), "");
  EXPECT_EQ(value, 0.25);
  EXPECT_EQ(take("86400"), "");
  EXPECT_EQ(value, 86400);
  EXPECT_EQ(take("0"), "");
  EXPECT_EQ(value, 0);
}

// A limit that no float is equal to may be typed.
TEST(FlagValueTest, LimitsCanBeReached) {
  std::optional<float> value;
  EXPECT_EQ(Number({0.01f, 100}, &value)("0.01"), "");
  EXPECT_EQ(Number({0.01f, 100}, &value)("100"), "");
}

TEST(FlagValueTest, TextsAreTakenAsTheyAre) {
  std::string last;
  std::vector<std::string> all;
  for (const char* text : {"a", "", "[b,c]"}) {
    EXPECT_EQ(Text(&last)(text), "");
    EXPECT_EQ(EachText(&all)(text), "");
  }
  EXPECT_EQ(last, "[b,c]");
  EXPECT_EQ(all, (std::vector<std::string>{"a", "", "[b,c]"}));
}

}  // namespace
}  // namespace winnow
