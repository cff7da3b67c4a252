#include "cli/command/deep_regex.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

std::optional<size_t> FindEnd(const std::string& pattern,
                              const std::string& text, size_t from = 0) {
  return DeepRegex::Compile(pattern).value().FindEnd(text, from).value();
}

int64_t MaxTextChars(const std::string& pattern) {
  return DeepRegex::Compile(pattern).value().max_text_chars();
}

std::string Nested(int depth, const std::string& inner) {
  return std::string(static_cast<size_t>(depth), '(') + inner +
         std::string(static_cast<size_t>(depth), ')');
}

TEST(DeepRegexTest, SaysWhereAMatchEnds) {
  EXPECT_EQ(FindEnd("b+", "abbc"), 3u);
  EXPECT_EQ(FindEnd("b", "abbc", 2), 3u);
  EXPECT_EQ(FindEnd("b", "abbc", 3), std::nullopt);
  EXPECT_EQ(FindEnd("^b", "ab", 1), std::nullopt);
  EXPECT_EQ(FindEnd("", ""), 0u);
}

TEST(DeepRegexTest, WhatIsNoPatternIsRefused) {
  const auto bad = DeepRegex::Compile("(a");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(bad.error().message.starts_with(
      "must be regular expressions, \"(a\" is none ("))
      << bad.error().message;
  // More states than the library makes.
  EXPECT_FALSE(DeepRegex::Compile("((a{99}){99}){99}").ok());
}

TEST(DeepRegexTest, LongPatternsAreRefusedAndDeepOnesAreNot) {
  const auto longer = DeepRegex::Compile(std::string(60'000, '('));
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().message,
            "must be regular expressions of at most 4096 characters, one has "
            "60000");
  EXPECT_FALSE(DeepRegex::Compile(std::string(4096, '(')).ok());
  EXPECT_EQ(FindEnd(Nested(2047, "a"), "ba"), 2u);
}

#ifndef __SANITIZE_THREAD__
// The thread sanitizer's record of calls ends at 65,536 of them, whatever the
// stack bears.

// Of a thread's usual 8 MiB, these would take 30.
TEST(DeepRegexTest, LongTextsAreSearched) {
  EXPECT_EQ(FindEnd(".*", std::string(100'000, 'a')), 100'000u);
  EXPECT_EQ(FindEnd(Nested(50, "a") + "*", std::string(2'000, 'a')), 2'000u);
}

TEST(DeepRegexTest, ATextThatTheStackMayNotBearIsRefused) {
  const DeepRegex regex = DeepRegex::Compile(".*").value();
  const auto most = static_cast<size_t>(regex.max_text_chars());
  EXPECT_GT(most, 100'000u);
  EXPECT_EQ(regex.FindEnd(std::string(most, 'a'), 0).value(), most);
  const auto refused = regex.FindEnd(std::string(most + 1, 'a'), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            fmt::format("a text must have at most {} characters to be searched "
                        "for its regular expression, has {}",
                        most, most + 1));
}
#endif

TEST(DeepRegexTest, StatesThatAPatternRepeatsCount) {
  EXPECT_LT(MaxTextChars("(a{100})*"), MaxTextChars("(a)*") / 10);
  EXPECT_LT(MaxTextChars("((a{30}){30})*"), MaxTextChars("(a{30})*") / 10);
  EXPECT_LT(MaxTextChars("(a{30}{30})*"), MaxTextChars("(a{30})*") / 10);
  // Neither a bracket in a class nor one behind a backslash ends a group.
  for (const char* pattern : {"(a[)]{9}){99}", "(a[[:alpha:])]{9}){99}",
                              "(a[\\])]{9}){99}", "(a\\){9}){99}"}) {
    EXPECT_LT(MaxTextChars(pattern), 600) << pattern;
  }
}

}  // namespace
}  // namespace winnow
