#include "text/tool_calls.h"

#include <gtest/gtest.h>

#include <random>

#include "base/file.h"

namespace winnow {
namespace {

constexpr ToolCallFormat kTagged = ToolCallFormat::kTagged;
constexpr ToolCallFormat kBare = ToolCallFormat::kBareObject;
constexpr ToolCallFormat kMarked = ToolCallFormat::kMarked;

// The parts as one line: text in quotes, calls as NAME(ARGUMENTS). Texts that
// follow one another are one.
std::string Shown(const std::vector<AnswerPart>& parts) {
  std::string shown, text;
  const auto end_text = [&] {
    if (!text.empty()) shown += "'" + text + "' ";
    text.clear();
  };
  for (const AnswerPart& part : parts) {
    text += part.text;
    if (!part.call) continue;
    end_text();
    shown += part.call->name + "(" + part.call->arguments_json + ") ";
  }
  end_text();
  if (!shown.empty()) shown.pop_back();
  return shown;
}

std::string Parsed(ToolCallFormat format,
                   const std::vector<std::string>& pieces) {
  ToolCallParser parser(format, {"get", "put"});
  std::vector<AnswerPart> all;
  for (const std::string& piece : pieces) {
    for (AnswerPart& part : parser.Push(piece)) all.push_back(std::move(part));
  }
  for (AnswerPart& part : parser.Finish()) all.push_back(std::move(part));
  return Shown(all);
}

struct Case {
  ToolCallFormat format;
  std::string text;
  std::string parsed;
};

// What models were seen to write, and what they should not.
const Case kCases[] = {
    {kTagged, "just text, a < b", "'just text, a < b'"},
    {kTagged, " padded \n", "' padded \n'"},
    {kTagged,
     "Let me see.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"b\": 1, "
     "\"a\": [\"}\\\"\"]}}\n</tool_call>",
     R"('Let me see.' get({"b":1,"a":["}\""]}))"},
    {kTagged,
     "<tool_call>{\"name\":\"get\",\"arguments\":{}}</tool_call>\n<tool_call>\n"
     "{\"name\":\"other\"}</tool_call>\n",
     "get({}) other({})"},
    {kTagged, "<tool_call>{\"name\":\"get\",\"arguments\":\"{\\\"a\\\":1}\"}",
     R"(get({"a":1}))"},
    {kTagged, "<tool_call>{\"name\":\"get\",\"arguments\":{}}</tool_call> done",
     "get({}) ' done'"},
    {kTagged, "<tool_call>{\"name\":\"get\",\"arguments\":3}</tool_call>",
     "'<tool_call>{\"name\":\"get\",\"arguments\":3}</tool_call>'"},
    {kTagged, "x <tool_call>{\"name\":}</tool_call>",
     "'x <tool_call>{\"name\":}</tool_call>'"},
    {kTagged, "x <tool_call> y", "'x <tool_call> y'"},
    {kTagged, "<tool_call>{\"name\": \"get\", \"arg",
     "'<tool_call>{\"name\": \"get\", \"arg'"},
    {kTagged, "<tool_call><tool_call>{\"name\":\"get\"}</tool_call>",
     "'<tool_call>' get({})"},
    {kTagged, "{\"name\":\"get\"}", "'{\"name\":\"get\"}'"},
    {kBare, "\n{\"name\": \"get\", \"parameters\": {\"a\": \"{\"}}",
     R"(get({"a":"{"}))"},
    {kBare,
     "{\"name\":\"get\",\"parameters\":{}}; {\"name\":\"put\","
     "\"arguments\":{}}\n",
     "get({}) put({})"},
    {kBare, "{\"name\":\"get\"} indeed", "get({}) ' indeed'"},
    {kBare, "{\"name\":\"unheard\",\"parameters\":{}}",
     "'{\"name\":\"unheard\",\"parameters\":{}}'"},
    {kBare, "Text {\"name\":\"get\"}", "'Text {\"name\":\"get\"}'"},
    {kBare, "{\"a\": 1}", "'{\"a\": 1}'"},
    {kBare, " ", "' '"},
    {kMarked,
     "Well. [TOOL_CALLS] [{\"name\": \"get\", \"arguments\": {\"a\": 1}}, "
     "{\"name\": \"put\", \"arguments\": {}}]",
     R"('Well.' get({"a":1}) put({}))"},
    {kMarked, "[TOOL_CALLS]get[ARGS]{\"a\": 1}[TOOL_CALLS]put{}",
     R"(get({"a":1}) put({}))"},
    {kMarked, "[TOOL_CALLS]get[CALL_ID]abcDEF123[ARGS]{}", "get({})"},
    {kMarked, "[TOOL_CALLS]get and more", "'[TOOL_CALLS]get and more'"},
    {kMarked, "[TOOL_CALLS]get[OTHER]", "'[TOOL_CALLS]get[OTHER]'"},
    {kMarked, "[TOOL_CALLS][1]", "'[TOOL_CALLS][1]'"},
    {kMarked, "[TOOL_CALLS] []", "'[TOOL_CALLS] []'"},
    {kMarked, "a [TOOL", "'a [TOOL'"},
};

TEST(ToolCallParserTest, TakesAnswersApart) {
  for (const Case& each : kCases) {
    EXPECT_EQ(Parsed(each.format, {each.text}), each.parsed) << each.text;
  }
}

TEST(ToolCallParserTest, PiecesChangeNothing) {
  std::mt19937 random(7);
  for (const Case& each : kCases) {
    for (int round = 0; round < 20; ++round) {
      const size_t longest = 1 + static_cast<size_t>(round);
      std::vector<std::string> pieces;
      for (size_t at = 0; at < each.text.size();) {
        const size_t size = 1 + random() % longest;
        pieces.push_back(each.text.substr(at, size));
        at += size;
      }
      EXPECT_EQ(Parsed(each.format, pieces), each.parsed) << each.text;
    }
  }
}

TEST(ToolCallParserTest, HoldsNoMoreTextThanItMust) {
  ToolCallParser parser(kTagged, {});
  EXPECT_EQ(Shown(parser.Push("a b <tool")), "'a b'");
  EXPECT_EQ(Shown(parser.Push("box>")), "' <toolbox>'");
  EXPECT_EQ(Shown(parser.Push("<tool_call>{\"name\":\"f\"")), "");
  EXPECT_EQ(Shown(parser.Push("}")), "f({})");
}

TEST(ToolCallParserTest, WhatNestsTooDeeplyIsText) {
  const std::string deep = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":" +
                           std::string(100'000, '[');
  EXPECT_EQ(Parsed(kTagged, {deep, deep}), "'" + deep + deep + "'");
}

TEST(ToolCallFormatTest, TheTemplateSaysIt) {
  const auto of = [](const std::string& name) {
    const auto source = ReadFile(std::filesystem::path(WINNOW_SOURCE_DIR) /
                                     ("tests/golden/chat/" + name + ".jinja"),
                                 size_t{1} << 20);
    return ToolCallFormatOf(source.value());
  };
  EXPECT_EQ(of("chatml"), kTagged);
  EXPECT_EQ(of("headers"), kBare);
  EXPECT_EQ(ToolCallFormatOf("{% if tools %}[AVAILABLE_TOOLS]{% endif %}"
                             "{{ '[TOOL_CALLS] [' }}"),
            kMarked);
  EXPECT_EQ(ToolCallFormatOf("{% if tools %}{{ '{\"name\": ' }}"
                             "{{ '\"parameters\": ' }}{% endif %}"),
            kBare);
  EXPECT_EQ(of("inst"), std::nullopt);
  EXPECT_EQ(ToolCallFormatOf("{{ tools }}<tool_call><function=f>"),
            std::nullopt);
  EXPECT_EQ(ToolCallFormatOf("<tool_call>"), std::nullopt);
}

}  // namespace
}  // namespace winnow
