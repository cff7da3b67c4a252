#include "text/tokenize/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace winnow {
namespace {

StopMatcher MakeMatcher(std::vector<std::string> stops) {
  return StopMatcher::Create(std::move(stops)).value();
}

TEST(StopMatcherTest, PassesTextWhereNothingCanBegin) {
  StopMatcher matcher = MakeMatcher({"END"});
  EXPECT_EQ(matcher.Push("hello "), "hello ");
  EXPECT_EQ(matcher.Push("wE"), "w");
  EXPECT_EQ(matcher.Push("a"), "Ea");
  EXPECT_EQ(matcher.Push("EN"), "");
  EXPECT_EQ(matcher.Finish(), "EN");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcherTest, WithoutStringsHoldsNothingBack) {
  StopMatcher matcher = MakeMatcher({});
  EXPECT_EQ(matcher.Push("anything"), "anything");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, MatchesAcrossPiecesAndCutsBefore) {
  StopMatcher matcher = MakeMatcher({"\n\nUser:", "###"});
  EXPECT_EQ(matcher.Push("yes\n"), "yes");
  EXPECT_EQ(matcher.Push("\n\nUs"), "\n");
  EXPECT_EQ(matcher.Push("er: more"), "");
  EXPECT_EQ(matcher.matched(), 0u);
}

TEST(StopMatcherTest, AStopMayBeKept) {
  StopMatcher matcher =
      StopMatcher::Create({"b", "ab"}, /*keeps_stops=*/true).value();
  EXPECT_EQ(matcher.Push("xa"), "x");
  EXPECT_EQ(matcher.Push("bc"), "ab");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcherTest, OfStringsThatEndTogetherTakesTheLongest) {
  StopMatcher matcher = MakeMatcher({"b", "ab"});
  EXPECT_EQ(matcher.Push("xab"), "x");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcherTest, TakesTheOneThatEndsFirst) {
  StopMatcher matcher = MakeMatcher({"bcd", "c"});
  EXPECT_EQ(matcher.Push("abcd"), "ab");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcherTest, RefusesStringsThatCannotBeStops) {
  const auto message = [](std::vector<std::string> stops) {
    const auto matcher = StopMatcher::Create(std::move(stops));
    return matcher.ok() ? "" : matcher.error().message;
  };
  EXPECT_EQ(message({"a", ""}), "stop[1]: must be 1 to 4096 bytes long, is 0");
  EXPECT_EQ(message({std::string(5000, 'x')}),
            "stop[0]: must be 1 to 4096 bytes long, is 5000");
  EXPECT_EQ(message({"ab\xff"}), "stop[0]: invalid UTF-8 at byte 2 (0xff)");
  EXPECT_EQ(message(std::vector<std::string>(65, "a")),
            "stop: must be at most 64 strings, are 65");
}

TEST(StopMatcherDeathTest, IsNotPushedAfterAMatch) {
  StopMatcher matcher = MakeMatcher({"a"});
  matcher.Push("a");
  EXPECT_DEATH(matcher.Push("b"), "CHECK failed: !matched_");
}

// Where `text` is cut: the definition, by looking at every prefix.
std::pair<std::string, std::optional<size_t>> Cut(
    const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (!text.substr(0, end).ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

std::string RandomText(std::mt19937& random, size_t max_size) {
  std::string text(1 + random() % max_size, 'a');
  for (char& c : text) c = "aab"[random() % 3];
  return text;
}

TEST(StopMatcherTest, EqualsTheDefinitionWhateverThePieces) {
  std::mt19937 random(1);
  int num_matched = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0; i <= random() % 3; ++i) {
      stops.push_back(RandomText(random, 6));
    }
    const std::string text = RandomText(random, 40);
    StopMatcher matcher = MakeMatcher(stops);
    std::string out;
    for (size_t at = 0; at < text.size() && !matcher.matched();) {
      const size_t size = 1 + random() % 4;
      out += matcher.Push(std::string_view(text).substr(at, size));
      at += size;
    }
    if (!matcher.matched()) out += matcher.Finish();
    const auto [expected, index] = Cut(text, stops);
    ASSERT_EQ(out, expected) << text;
    ASSERT_EQ(matcher.matched(), index) << text;
    num_matched += matcher.matched() ? 1 : 0;
  }
  EXPECT_GT(num_matched, 500);
  EXPECT_LT(num_matched, 2900);
}

}  // namespace
}  // namespace winnow
