#include "text/tools/thoughts.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

namespace winnow {
namespace {

// {the thought, the answer}; each piece of one kind follows the other's once.
using Parts = std::pair<std::string, std::string>;

void Add(const std::vector<ThoughtPiece>& pieces, Parts& parts) {
  for (const ThoughtPiece& piece : pieces) {
    EXPECT_FALSE(piece.text.empty());
    EXPECT_TRUE(!piece.is_thought || parts.second.empty()) << piece.text;
    (piece.is_thought ? parts.first : parts.second) += piece.text;
  }
}

Parts PartsOf(bool open, const std::vector<std::string>& texts) {
  ThoughtSplitter splitter(open);
  Parts parts;
  for (const std::string& text : texts) Add(splitter.Push(text), parts);
  Add(splitter.Finish(), parts);
  return parts;
}

struct ThoughtCase {
  bool open;
  std::string text;
  Parts parts;
};

const std::vector<ThoughtCase>& ThoughtCases() {
  static const std::vector<ThoughtCase> cases = {
      {false,
       "<think>\nSo.\n\nThen.\n</think>\n\nYes.\n",
       {"So.\n\nThen.", "Yes.\n"}},
      {true, "\nSo.\n</think>\n\nYes.", {"So.", "Yes."}},
      {true, "\n<think>\nSo.</think>Yes.", {"So.", "Yes."}},
      {false, "<think>\n\n</think>\n\nYes.", {"", "Yes."}},
      {true, "</think>Yes.", {"", "Yes."}},
      // Without an end all of it is a thought.
      {false, "<think>So. ", {"So.", ""}},
      {true, "So.", {"So.", ""}},
      {true, "So </thin", {"So </thin", ""}},
      {true, "<thi", {"<thi", ""}},
      {false, "<think>", {"", ""}},
      // Tags elsewhere are text.
      {false, "Yes.", {"", "Yes."}},
      {false, "\n Yes <think>no</think>", {"", "\n Yes <think>no</think>"}},
      {false,
       "<think>a</think>b <think>c</think>",
       {"a", "b <think>c</think>"}},
      {false, "<think>a <think> b</think>c", {"a <think> b", "c"}},
      {false, "a</think>b", {"", "a</think>b"}},
      {false, " <thin", {"", " <thin"}},
      {false, "<thinks>x", {"", "<thinks>x"}},
      {false, "<think>a < b </ c</think>d", {"a < b </ c", "d"}},
      {false, "<think>a</thi</think>d", {"a</thi", "d"}},
      {false, " \n", {"", " \n"}},
      {false, "", {"", ""}},
  };
  return cases;
}

TEST(ThoughtsTest, StandAtTheBeginning) {
  for (const ThoughtCase& each : ThoughtCases()) {
    EXPECT_EQ(PartsOf(each.open, {each.text}), each.parts) << each.text;
  }
}

TEST(ThoughtsTest, DoNotDependOnThePieces) {
  std::mt19937 random(7);
  for (const ThoughtCase& each : ThoughtCases()) {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::string> texts;
      for (size_t at = 0; at < each.text.size();) {
        const size_t length = round == 0 ? 1 : random() % 6;
        texts.push_back(each.text.substr(at, length));
        at += texts.back().size();
      }
      EXPECT_EQ(PartsOf(each.open, texts), each.parts) << each.text;
    }
  }
}

// What is certain is not held back.
TEST(ThoughtsTest, AreGivenAsTheyCome) {
  ThoughtSplitter splitter(/*open=*/false);
  EXPECT_FALSE(splitter.thinks());
  EXPECT_TRUE(splitter.Push("<think>").empty());
  EXPECT_TRUE(splitter.thinks());
  Parts parts;
  Add(splitter.Push("One two \n</th"), parts);
  EXPECT_EQ(parts.first, "One two");
  Add(splitter.Push("ree <"), parts);
  EXPECT_EQ(parts.first, "One two \n</three");
  Add(splitter.Push("/think>"), parts);
  EXPECT_FALSE(splitter.thinks());
  EXPECT_EQ(parts.first, "One two \n</three");
  Add(splitter.Push("\n\nFour <"), parts);
  EXPECT_EQ(parts.second, "Four <");
}

TEST(ThoughtsTest, LongWhiteSpaceCostsItsLength) {
  ThoughtSplitter splitter(/*open=*/true);
  Parts parts;
  Add(splitter.Push("a"), parts);
  for (int i = 0; i < 1'000'000; ++i) Add(splitter.Push(" "), parts);
  Add(splitter.Push("b"), parts);
  EXPECT_EQ(parts.first.size(), 1'000'002u);
}

TEST(ThoughtsTest, TheTemplateShowsThem) {
  const ThoughtStyle none = ThoughtStyleOf("{{ messages }} thinking hard");
  EXPECT_FALSE(none.has_tags || none.reads_effort);
  EXPECT_EQ(none.switch_name, "");
  EXPECT_FALSE(ThoughtStyleOf("<think>").has_tags);
  const ThoughtStyle qwen = ThoughtStyleOf(
      "{%- if enable_thinking is defined and enable_thinking is false %}"
      "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}");
  EXPECT_TRUE(qwen.has_tags);
  EXPECT_EQ(qwen.switch_name, "enable_thinking");
  const ThoughtStyle deepseek = ThoughtStyleOf(
      "{% if not thinking is defined %}{% set thinking = false %}{% endif %}");
  EXPECT_EQ(deepseek.switch_name, "thinking");
  EXPECT_TRUE(ThoughtStyleOf("{{ reasoning_effort }}").reads_effort);
}

TEST(ThoughtsTest, APromptMayBeginOne) {
  EXPECT_TRUE(EndsInThoughtTag("assistant\n<think>\n"));
  EXPECT_FALSE(EndsInThoughtTag("<think>\n\n</think>\n\n"));
  EXPECT_FALSE(EndsInThoughtTag("\n"));
  EXPECT_TRUE(LeavesThoughtOpen("<think>So"));
  EXPECT_TRUE(LeavesThoughtOpen("<think>a</think><think>b"));
  EXPECT_FALSE(LeavesThoughtOpen("<think>a</think>b"));
  EXPECT_FALSE(LeavesThoughtOpen("a</think>"));
}

}  // namespace
}  // namespace winnow
