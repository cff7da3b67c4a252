#include "text/tools/python_calls.h"

#include <gtest/gtest.h>

#include "text/tools/tool_calls_case.h"

namespace winnow {
namespace {

constexpr ToolCallFormat kPythonForm = ToolCallFormat::kPythonCalls;

const std::vector<CallableTool> kPythonTools = {{"get", ""}};

std::string ParsedPython(const std::string& text) {
  return Shown(PartsOf(kPythonForm, kPythonTools, {text}));
}

std::string Fenced(const std::string& calls) {
  return "<|tool_call_start|>\n```python\n" + calls +
         "\n```\n<|tool_call_end|>";
}

const std::vector<ToolCallsCase> kPythonCases = {
    {"just text, a <| b", "'just text, a <| b'"},
    // As templates write them.
    {"I look.\n" + Fenced("get(city=\"Oslo\", days=3)") + "\nWait.",
     R"('I look.' get({"city":"Oslo","days":3}) '
Wait.')"},
    {Fenced("get(a=1,b=[true,null,{\"c\":1.5}])\nput-it.now()"),
     R"(get({"a":1,"b":[true,null,{"c":1.5}]}) put-it.now({}))"},
    {Fenced("get(a=1)") + "\n" + Fenced("put()"), R"(get({"a":1}) put({}))"},
    // As Python has them.
    {Fenced("get(a='it\\'s', b=None, c=(1, -2.5), d={'x': True},)"),
     R"(get({"a":"it's","b":null,"c":[1,-2.5],"d":{"x":true}}))"},
    {Fenced("get(\n    a = '''x\n(\"y' ''',\n    b=r'\\d)',\n)"),
     R"x(get({"a":"x\n(\"y' ","b":"\\d)"}))x"},
    {Fenced("get(a='')"), R"(get({"a":""}))"},
    {Fenced("get(a='', b='''''', c=\"\"\"'\"\"\")"),
     R"(get({"a":"","b":"","c":"'"}))"},
    {Fenced("get(a=')', b='\\\\')"), R"x(get({"a":")","b":"\\"}))x"},
    {Fenced("get(a='```\\n<|tool_call_end|>')"),
     R"(get({"a":"```\n<|tool_call_end|>"}))"},
    {Fenced("get(a=1); put(from='x')"), R"(get({"a":1}) '; put(from='x')
```
<|tool_call_end|>')"},
    {Fenced("get(from='x', class_=1)"), R"(get({"from":"x","class_":1}))"},
    // Without a fence, or without its language.
    {"<|tool_call_start|>get(a=1)<|tool_call_end|>", R"(get({"a":1}))"},
    {"<|tool_call_start|>\n```\nget(a=1)\n```\n<|tool_call_end|>",
     R"(get({"a":1}))"},
    {"<|tool_call_start|> get()\nput() <|tool_call_end|> so",
     "get({}) put({}) ' so'"},
    {"<|tool_call_start|>```python get()", "get({})"},
    {"<|tool_call_start|>```python get()``` and", "get({}) ' and'"},
    {"<|tool_call_start|>```python\nget()\n```\nput()", "get({}) '\nput()'"},
    // None.
    {Fenced("get(1)"), "'" + Fenced("get(1)") + "'"},
    {Fenced("get(a=b)"), "'" + Fenced("get(a=b)") + "'"},
    {Fenced("get(a=1+1)"), "'" + Fenced("get(a=1+1)") + "'"},
    {Fenced("get(a=f(1))"), "'" + Fenced("get(a=f(1))") + "'"},
    {Fenced("get(a=1, a=2)"), "'" + Fenced("get(a=1, a=2)") + "'"},
    {Fenced("get(a=1 b=2)"), "'" + Fenced("get(a=1 b=2)") + "'"},
    {Fenced("get(,)"), "'" + Fenced("get(,)") + "'"},
    {Fenced("get(a=[)"), "'" + Fenced("get(a=[)") + "'"},
    {Fenced("get(a='x\ny')"), "'" + Fenced("get(a='x\ny')") + "'"},
    {Fenced("get (a=1)"), "'" + Fenced("get (a=1)") + "'"},
    {Fenced("x = get(a=1)"), "'" + Fenced("x = get(a=1)") + "'"},
    {Fenced("(get)(a=1)"), "'" + Fenced("(get)(a=1)") + "'"},
    {Fenced(""), "'" + Fenced("") + "'"},
    {"<|tool_call_start|>[get(a=1)]", "'<|tool_call_start|>[get(a=1)]'"},
    {"<|tool_call_start|> <|tool_call_start|>get()",
     "'<|tool_call_start|> ' get({})"},
    {Fenced("get()\nput(1)"), "get({}) '\nput(1)\n```\n<|tool_call_end|>'"},
    // Unfinished.
    {"a <|tool_call_start|>", "'a <|tool_call_start|>'"},
    {"<|tool_call_start|>\n``", "'<|tool_call_start|>\n``'"},
    {"<|tool_call_start|>\n```pyth", "'<|tool_call_start|>\n```pyth'"},
    {"<|tool_call_start|>\nget", "'<|tool_call_start|>\nget'"},
    {"<|tool_call_start|>\nget(a='", "'<|tool_call_start|>\nget(a=''"},
    {"<|tool_call_start|>\nget(a=1", "'<|tool_call_start|>\nget(a=1'"},
    {"<|tool_call_start|>\n```python\nget()\n``", "get({}) '\n``'"},
    {"<|tool_call_start|>\n```python\nget()\n```\n<|tool",
     "get({}) '\n<|tool'"},
};

TEST(PythonCallsTest, TakesAnswersApart) {
  for (const ToolCallsCase& each : kPythonCases) {
    EXPECT_EQ(ParsedPython(each.text), each.parsed) << each.text;
  }
}

TEST(PythonCallsTest, PiecesChangeNothing) {
  for (const ToolCallsCase& each : kPythonCases) {
    ExpectTheSameInPieces(kPythonForm, kPythonTools, each.text);
  }
}

TEST(PythonCallsTest, HoldsNoMoreTextThanItMust) {
  ToolCallParser parser(kPythonForm,
                        std::make_shared<ParameterTypes>(kPythonTools));
  EXPECT_EQ(Shown(parser.Push("a b <|tool_call")), "'a b'");
  EXPECT_EQ(Shown(parser.Push("er|>")), "' <|tool_caller|>'");
  EXPECT_EQ(Shown(parser.Push("<|tool_call_start|>get(a='')")),
            R"(get({"a":""}))");
}

// Byte by byte, as answers may come: a square of these would not end.
TEST(PythonCallsTest, AByteCostsOneStep) {
  constexpr size_t kNumBytes = 300'000;
  const std::string begin = "<|tool_call_start|>get(a=[";
  for (const char* unit : {"x", "'',", "\n", "'''x''',", "'\\''", "#"}) {
    std::string value;
    while (value.size() < kNumBytes) value += unit;
    ToolCallParser parser(kPythonForm,
                          std::make_shared<ParameterTypes>(kPythonTools));
    for (const char c : begin + value) {
      EXPECT_TRUE(parser.Push(std::string_view(&c, 1)).empty());
    }
    EXPECT_EQ(Shown(parser.Finish()), "'" + begin + value + "'");
  }
}

TEST(PythonCallsTest, WhatIsDeepOrLongIsText) {
  const std::string deep =
      "<|tool_call_start|>get(a=" + std::string(100'000, '[');
  EXPECT_EQ(ParsedPython(deep), "'" + deep + "'");
  const std::string name(129, 'n');
  EXPECT_EQ(ParsedPython("<|tool_call_start|>" + name + "()"),
            "'<|tool_call_start|>" + name + "()'");
  EXPECT_EQ(ParsedPython("<|tool_call_start|>" + name.substr(1) + "()"),
            name.substr(1) + "({})");
}

}  // namespace
}  // namespace winnow
