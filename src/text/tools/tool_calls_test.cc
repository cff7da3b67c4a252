#include "text/tools/tool_calls.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "source_dir.h"
#include "text/tools/tool_calls_case.h"

namespace winnow {
namespace {

constexpr ToolCallFormat kTagged = ToolCallFormat::kTagged;
constexpr ToolCallFormat kBare = ToolCallFormat::kBareObject;
constexpr ToolCallFormat kMarked = ToolCallFormat::kMarked;

const std::vector<CallableTool> kPlainTools = {{"get", ""}, {"put", ""}};

struct FormatCase {
  ToolCallFormat format;
  std::string text;
  std::string parsed;
};

// What models were seen to write, and what they should not.
const FormatCase kFormatCases[] = {
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
  for (const FormatCase& each : kFormatCases) {
    EXPECT_EQ(Shown(PartsOf(each.format, kPlainTools, {each.text})),
              each.parsed)
        << each.text;
  }
}

TEST(ToolCallParserTest, PiecesChangeNothing) {
  for (const FormatCase& each : kFormatCases) {
    ExpectTheSameInPieces(each.format, kPlainTools, each.text);
  }
}

TEST(ToolCallParserTest, HoldsNoMoreTextThanItMust) {
  ToolCallParser parser(kTagged, std::make_shared<ParameterTypes>(kPlainTools));
  EXPECT_EQ(Shown(parser.Push("a b <tool")), "'a b'");
  EXPECT_EQ(Shown(parser.Push("box>")), "' <toolbox>'");
  EXPECT_EQ(Shown(parser.Push("<tool_call>{\"name\":\"f\"")), "");
  EXPECT_EQ(Shown(parser.Push("}")), "f({})");
}

TEST(ToolCallParserTest, WhatNestsTooDeeplyIsText) {
  const std::string deep = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":" +
                           std::string(100'000, '[');
  EXPECT_EQ(Shown(PartsOf(kTagged, kPlainTools, {deep, deep})),
            "'" + deep + deep + "'");
}

constexpr const char* kFragments[] = {"<tool_call>",
                                      "</tool_call>",
                                      "[TOOL_CALLS]",
                                      "[ARGS]",
                                      "[CALL_ID]",
                                      "<function=get>",
                                      "<function=",
                                      "</function>",
                                      "<parameter=a>",
                                      "</parameter>",
                                      "<|tool_call_start|>",
                                      "<|tool_call_end|>",
                                      "```python",
                                      "```",
                                      "get",
                                      "get(",
                                      ")",
                                      "a=",
                                      "{\"name\":\"get\"",
                                      "\"arguments\":{",
                                      "}",
                                      "[",
                                      "]",
                                      "(",
                                      ",",
                                      ";",
                                      ":",
                                      "'",
                                      "\"",
                                      "\"\"\"",
                                      "\\",
                                      "1",
                                      "-",
                                      "\n",
                                      " ",
                                      "null",
                                      "True",
                                      "\xc3\xa9",
                                      "\xff",
                                      "<",
                                      "`"};

// Fragments of all forms in any order: the parts are those of the whole, what
// is no call is there to the byte, and arguments are objects.
TEST(ToolCallParserTest, WhateverComes) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = random() % 20; i > 0; --i) {
      text += kFragments[random() % std::size(kFragments)];
    }
    for (const ToolCallFormat format :
         {kTagged, kBare, kMarked, ToolCallFormat::kParameterTags,
          ToolCallFormat::kPythonCalls}) {
      const auto parts = PartsOf(format, kPlainTools, {text});
      std::vector<std::string> bytes;
      for (const char c : text) bytes.emplace_back(1, c);
      ASSERT_EQ(Shown(PartsOf(format, kPlainTools, bytes)), Shown(parts))
          << text;
      std::string shown;
      bool calls = false;
      for (const AnswerPart& part : parts) {
        shown += part.text;
        calls = calls || part.call;
        if (!part.call) continue;
        EXPECT_TRUE(
            nlohmann::json::parse(part.call->arguments_json).is_object());
      }
      if (!calls) {
        EXPECT_EQ(shown, text);
      }
    }
  }
}

// Of an answer that is calls or text, text that shows a call is text.
TEST(ToolCallParserTest, AnAnswerThatBeginsAsTextIsText) {
  const std::string call =
      R"(<tool_call>{"name":"get","arguments":{}}</tool_call>)";
  for (const auto& [text, parsed] :
       std::vector<std::pair<std::string, std::string>>{
           {"{\"a\": \"" + call + "\"}", "'{\"a\": \"" + call + "\"}'"},
           {"\n" + call + "\n" + call, "get({}) get({})"},
           {"<tool", "'<tool'"},
           {" <tool_box>" + call, "' <tool_box>" + call + "'"},
           {" ", "' '"},
           {"", ""}}) {
    EXPECT_EQ(Shown(PartsOf(kTagged, kPlainTools, {text}, CallPlaces::kAlone)),
              parsed);
    ExpectTheSameInPieces(kTagged, kPlainTools, text, CallPlaces::kAlone);
  }
  const std::string list = R"([TOOL_CALLS] [{"name": "get"}])";
  EXPECT_EQ(Shown(PartsOf(kMarked, kPlainTools, {list}, CallPlaces::kAlone)),
            "get({})");
  EXPECT_EQ(
      Shown(PartsOf(kMarked, kPlainTools, {"[1]" + list}, CallPlaces::kAlone)),
      "'[1]" + list + "'");
  EXPECT_EQ(
      Shown(PartsOf(kBare, kPlainTools, {"{\"a\": 1}"}, CallPlaces::kAlone)),
      "'{\"a\": 1}'");
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
  EXPECT_EQ(ToolCallFormatOf("{{ tools }}<tool_call><function=f>{}"),
            std::nullopt);
  EXPECT_EQ(ToolCallFormatOf("{{ tools }}<tool_call>\n<function=f>\n"
                             "<parameter=a>\n"),
            ToolCallFormat::kParameterTags);
  EXPECT_EQ(ToolCallFormatOf("{{ tools }}<|tool_call_start|>\n```python\n"),
            ToolCallFormat::kPythonCalls);
  EXPECT_EQ(ToolCallFormatOf("{{ tools }}<|tool_call_start|>[f(a=1)]"),
            std::nullopt);
  EXPECT_EQ(ToolCallFormatOf("<tool_call>"), std::nullopt);
}

}  // namespace
}  // namespace winnow
