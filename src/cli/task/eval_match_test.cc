#include "cli/task/eval_match.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

bool Matches(const AnswerMatcher::Wanted& wanted, std::string_view text) {
  return AnswerMatcher::Create(wanted).value().Matches(text).value();
}

TEST(EvalMatchTest, CollapsesWhiteSpace) {
  EXPECT_EQ(CollapseWhiteSpace(" a \t b\r\n\nc  "), "a b c");
  EXPECT_EQ(CollapseWhiteSpace(" \n "), "");
}

TEST(EvalMatchTest, ContainsAllInOrder) {
  const AnswerMatcher::Wanted wanted = {.answers = {"3  1", "4"}};
  EXPECT_TRUE(Matches(wanted, "it is 3\n1, then 4."));
  EXPECT_FALSE(Matches(wanted, "4, then 3 1"));
  EXPECT_FALSE(Matches(wanted, "3 1"));
  EXPECT_FALSE(Matches(wanted, ""));
  // The same answer twice must occur twice, the second behind the first.
  EXPECT_TRUE(Matches({.answers = {"aa", "a"}}, "aaa"));
  EXPECT_FALSE(Matches({.answers = {"aa", "a"}}, "aa"));
  EXPECT_FALSE(Matches({.answers = {"Ann"}}, "ann"));
}

TEST(EvalMatchTest, ContainsInAnyOrder) {
  const AnswerMatcher::Wanted wanted = {.answers = {"b", "a"},
                                        .unordered = true};
  EXPECT_TRUE(Matches(wanted, "a b"));
  EXPECT_TRUE(Matches(wanted, "b a"));
  EXPECT_FALSE(Matches(wanted, "b"));
}

TEST(EvalMatchTest, Exactly) {
  const AnswerMatcher::Wanted ordered = {.rule = MatchRule::kExact,
                                         .answers = {"3 1", "4"}};
  EXPECT_TRUE(Matches(ordered, " 3 1\n4 "));
  EXPECT_FALSE(Matches(ordered, "3 1 4 1"));
  EXPECT_FALSE(Matches(ordered, "4 3 1"));
  const AnswerMatcher::Wanted any = {.rule = MatchRule::kExact,
                                     .answers = {"a", "a b", "b", "a"},
                                     .unordered = true};
  EXPECT_TRUE(Matches(any, "a a b a b"));
  EXPECT_TRUE(Matches(any, "b a b a a"));
  EXPECT_TRUE(Matches(any, "a b b a a"));
  EXPECT_FALSE(Matches(any, "a a b b"));
  EXPECT_FALSE(Matches(any, "a a b a b a"));
  EXPECT_FALSE(Matches(any, "b b a a a"));
  EXPECT_FALSE(Matches(any, "aa b a b"));
}

TEST(EvalMatchTest, RegularExpressionsAreSearched) {
  const AnswerMatcher::Wanted wanted = {.rule = MatchRule::kRegex,
                                        .answers = {"[Pp]aris", "\\b7\\b"}};
  EXPECT_TRUE(Matches(wanted, "In Paris, on the 7 th"));
  EXPECT_FALSE(Matches(wanted, "7 in paris"));
  EXPECT_FALSE(Matches(wanted, "paris 77"));
  EXPECT_TRUE(Matches(
      {.rule = MatchRule::kRegex, .answers = {"a$", "^b"}, .unordered = true},
      "b a"));
  // A beginning is the text's, also for the second one.
  EXPECT_FALSE(
      Matches({.rule = MatchRule::kRegex, .answers = {"a", "^b"}}, "ab"));
  const auto bad =
      AnswerMatcher::Create({.rule = MatchRule::kRegex, .answers = {"(a"}});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("\"(a\" is none"), std::string::npos);
}

TEST(EvalMatchTest, ATextTooLongForARegularExpressionIsRefused) {
  const auto matcher =
      AnswerMatcher::Create({.rule = MatchRule::kRegex, .answers = {"a"}})
          .value();
  const auto refused = matcher.Matches(std::string(1 << 20, 'b'));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
}

TEST(EvalMatchTest, NamesOfRules) {
  EXPECT_EQ(*ParseMatchRule("regex"), MatchRule::kRegex);
  EXPECT_EQ(ParseMatchRule("glob").error().message,
            "--match must be contains, exact or regex, is glob");
}

}  // namespace
}  // namespace winnow
