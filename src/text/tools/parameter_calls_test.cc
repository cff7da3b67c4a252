#include <gtest/gtest.h>

#include <algorithm>

#include "text/tools/tool_calls_case.h"

namespace winnow {
namespace {

constexpr ToolCallFormat kParameterForm = ToolCallFormat::kParameterTags;

const std::vector<CallableTool> kParameterTools = {
    {"get", R"({"properties": {"s": {"type": "string"},
                               "n": {"type": "integer"},
                               "l": {"type": "array"},
                               "o": {"type": ["object", "null"]}}})"},
    {"put-it.now", ""}};

std::string ParsedParameters(const std::string& text) {
  return Shown(PartsOf(kParameterForm, kParameterTools, {text}));
}

const std::vector<ToolCallsCase> kParameterCases = {
    {"just text, a < b", "'just text, a < b'"},
    {"<function> and <tool_caller>", "'<function> and <tool_caller>'"},
    // As templates write them.
    {"I look.\n\n<tool_call>\n<function=get>\n<parameter=s>\na b\n"
     "</parameter>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>",
     R"('I look.' get({"s":"a b","n":5}))"},
    {"<tool_call>\n<function=get>\n</function>\n</tool_call>\n<tool_call>\n"
     "<function=put-it.now>\n<parameter=x>\n1\n</parameter>\n</function>\n"
     "</tool_call>\n",
     R"(get({}) put-it.now({"x":"1"}))"},
    {"<tool_call><function=get></function></tool_call> done",
     "get({}) ' done'"},
    // Values of several lines, of which one line end at each side is none.
    {"<tool_call><function=get><parameter=s>\n\n a\n\tb\n\n</parameter>"
     "</function></tool_call>",
     R"(get({"s":"\n a\n\tb\n"}))"},
    {"<tool_call><function=get><parameter=s></parameter></function>"
     "</tool_call>",
     R"(get({"s":""}))"},
    {"<tool_call><function=get><parameter=s>\n</parameter></function>"
     "</tool_call>",
     R"(get({"s":""}))"},
    {"<tool_call><function=get><parameter=s>x</parameter><parameter=l>"
     "['a', None]</parameter><parameter=o>\nnull\n</parameter></function>"
     "</tool_call>",
     R"(get({"s":"x","l":["a",null],"o":null}))"},
    // What looks like a tag within a value.
    {"<tool_call><function=get><parameter=s>\na <b></parameter> </p> "
     "</function></tool_call>\n<parameter=n>\n</parameter>\n</function>"
     "</tool_call>",
     R"(get({"s":"a <b></parameter> </p> </function></tool_call>\n)"
     R"(<parameter=n>"}))"},
    {"<tool_call><function=get><parameter=s><<</parameter></parameter>"
     "</function></tool_call>",
     R"(get({"s":"<<</parameter>"}))"},
    // Any tool where a call is marked, any name of a parameter; the last value
    // of a name.
    {"<tool_call><function=other><parameter=a b>1</parameter><parameter=a b>2"
     "</parameter></function></tool_call>",
     R"(other({"a b":"2"}))"},
    // A mark that is left out, before a known tool alone.
    {"Well: <function=get>\n<parameter=n>1</parameter></function>\n"
     "</tool_call> so",
     R"('Well:' get({"n":1}) ' so')"},
    {"<function=other></function>", "'<function=other></function>'"},
    {"<tool_call><function=get></tool_call>!", "get({}) '!'"},
    {"<tool_call><function=get></function><function=put-it.now></function>"
     "</tool_call>",
     "get({}) put-it.now({})"},
    // None.
    {"<tool_call>{\"name\":\"get\"}</tool_call>",
     "'<tool_call>{\"name\":\"get\"}</tool_call>'"},
    {"<tool_call>\n<function=>\n</function>",
     "'<tool_call>\n<function=>\n</function>'"},
    {"<tool_call><function=a b></function>",
     "'<tool_call><function=a b></function>'"},
    {"<tool_call><function=get>text</function></tool_call>",
     "'<tool_call><function=get>text</function></tool_call>'"},
    {"<tool_call><function=get><parameter=></parameter></function>",
     "'<tool_call><function=get><parameter=></parameter></function>'"},
    {"<tool_call><function=get><parameter=s\n>1</parameter></function>",
     "'<tool_call><function=get><parameter=s\n>1</parameter></function>'"},
    {"<tool_call><tool_call><function=get></function></tool_call>",
     "'<tool_call>' get({})"},
    {"<tool_call><function=get><function=get></function></tool_call>",
     "'<tool_call><function=get>' get({})"},
    // Unfinished.
    {"a <tool_call>", "'a <tool_call>'"},
    {"<tool_call>\n<function=ge", "'<tool_call>\n<function=ge'"},
    {"<tool_call>\n<function=get>\n<parameter=s>\nabc</para",
     "'<tool_call>\n<function=get>\n<parameter=s>\nabc</para'"},
    {"<tool_call>\n<function=get>\n<parameter=s>\nabc</parameter>\n",
     "'<tool_call>\n<function=get>\n<parameter=s>\nabc</parameter>\n'"},
    {"<tool_call>\n<function=get></function>\n</tool", "get({}) '\n</tool'"},
};

TEST(ParameterCallsTest, TakesAnswersApart) {
  for (const ToolCallsCase& each : kParameterCases) {
    EXPECT_EQ(ParsedParameters(each.text), each.parsed) << each.text;
  }
}

TEST(ParameterCallsTest, PiecesChangeNothing) {
  for (const ToolCallsCase& each : kParameterCases) {
    ExpectTheSameInPieces(kParameterForm, kParameterTools, each.text);
  }
}

TEST(ParameterCallsTest, HoldsNoMoreTextThanItMust) {
  ToolCallParser parser(kParameterForm,
                        std::make_shared<ParameterTypes>(kParameterTools));
  EXPECT_EQ(Shown(parser.Push("a <function")), "'a'");
  EXPECT_EQ(Shown(parser.Push("al> b")), "' <functional> b'");
  EXPECT_EQ(Shown(parser.Push("<tool_call><function=get")), "");
  EXPECT_EQ(Shown(parser.Push("><parameter=n>1</parameter>")), "");
  EXPECT_EQ(Shown(parser.Push("</function>")), R"(get({"n":1}))");
}

// Byte by byte, as answers may come: a square of these would not end.
TEST(ParameterCallsTest, AByteCostsOneStep) {
  constexpr size_t kNumBytes = 300'000;
  const std::string begin = "<tool_call><function=get><parameter=s>";
  for (const char* unit : {"x", "<", "\n", "</parameter>", "</parameter> "}) {
    std::string value;
    while (value.size() < kNumBytes) value += unit;
    ToolCallParser parser(kParameterForm,
                          std::make_shared<ParameterTypes>(kParameterTools));
    for (const char c : begin + value) {
      EXPECT_TRUE(parser.Push(std::string_view(&c, 1)).empty());
    }
    EXPECT_EQ(Shown(parser.Finish()), "'" + begin + value + "'");
  }
  for (const char* unit : {" ", "<", "<tool_call>", "<function="}) {
    std::string text, shown;
    while (text.size() < kNumBytes) text += unit;
    ToolCallParser parser(kParameterForm,
                          std::make_shared<ParameterTypes>(kParameterTools));
    for (const char c : text) {
      for (const AnswerPart& part : parser.Push(std::string_view(&c, 1))) {
        shown += part.text;
      }
    }
    for (const AnswerPart& part : parser.Finish()) shown += part.text;
    EXPECT_EQ(shown, text);
  }
}

TEST(ParameterCallsTest, NamesHaveABound) {
  const std::string most(128, 'n');
  const std::string call = "<tool_call><function=" + most +
                           "><parameter=" + most +
                           ">1</parameter></function></tool_call>";
  EXPECT_EQ(ParsedParameters(call), most + "({\"" + most + "\":\"1\"})");
  for (const char* tag : {"<function=", "<parameter="}) {
    std::string longer = call;
    longer.insert(longer.find(tag) + std::string_view(tag).size(), "n");
    EXPECT_EQ(ParsedParameters(longer), "'" + longer + "'");
  }
}

}  // namespace
}  // namespace winnow
