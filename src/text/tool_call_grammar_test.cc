#include "text/tool_call_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "text/answer_text.h"
#include "text/grammar_case.h"
#include "text/tool_calls_case.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = size_t{1} << 18;

// Calls as the form's parser reads them, with special tokens and without.
TEST(ToolCallGrammarTest, EveryTextIsCallsOfTheTools) {
  const std::vector<CallableTool> tools = {
      {.name = "get.weather-2",
       .parameters_json = R"({"$defs": {"n": {"type": "integer", "minimum": 0,
                              "maximum": 9}},
                              "type": "object",
                              "properties": {"n": {"$ref": "#/$defs/n"}},
                              "required": ["n"],
                              "additionalProperties": false})"},
      {.name = "none",
       .parameters_json =
           R"({"properties": {}, "additionalProperties": false})"}};
  for (const bool has_markers : {false, true}) {
    for (const ToolCallFormat format :
         {ToolCallFormat::kTagged, ToolCallFormat::kBareObject,
          ToolCallFormat::kMarked}) {
      for (const bool one_call : {false, true}) {
        std::vector<std::string> pieces = AsciiPieces();
        if (has_markers) pieces.emplace_back("[ARGS]");
        const Tokenizer tokenizer = PiecesTokenizer(pieces);
        const GrammarVocabulary vocabulary =
            VocabularyOf(tokenizer, kPiecesEnd);
        const auto matcher = vocabulary.Compile(
            *ToolCallGrammar(format, tools, one_call, tokenizer, kMaxBytes));
        ASSERT_TRUE(matcher.ok()) << matcher.error().message;
        std::mt19937 random(3);
        std::set<std::string> called;
        for (int i = 0; i < 10; ++i) {
          const auto tokens = DrawText(matcher->Clone(), tokenizer.vocab_size(),
                                       kPiecesEnd, kMaxDrawnTokens, random);
          ASSERT_TRUE(tokens.has_value());
          const std::string text = *tokenizer.Decode(*tokens, true);
          const auto parts = PartsOf(format, tools, {text});
          ASSERT_FALSE(parts.empty()) << text;
          for (const AnswerPart& part : parts) {
            ASSERT_TRUE(part.call.has_value()) << text;
            called.insert(part.call->name);
            const json arguments = json::parse(part.call->arguments_json);
            EXPECT_EQ(arguments.contains("n"), part.call->name != "none");
          }
          EXPECT_TRUE(!one_call || parts.size() == 1) << text;
        }
        EXPECT_EQ(called.size(), 2u);
      }
    }
  }
}

constexpr ToolCallFormat kTags = ToolCallFormat::kParameterTags;
constexpr ToolCallFormat kPython = ToolCallFormat::kPythonCalls;

constexpr const char* kWeatherSchema = R"({
  "type": "object",
  "$defs": {"Unit": {"enum": ["c", "k\"\n"], "type": "string"}},
  "properties": {
    "place": {"type": "string", "maxLength": 12, "description": "Where"},
    "unit": {"anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}]},
    "days": {"type": "integer", "minimum": 0, "maximum": 9},
    "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "list": {"type": "array", "items": {"$ref": "#/$defs/Unit"},
             "maxItems": 2}
  },
  "required": ["place", "days"],
  "additionalProperties": false
})";

// kWeatherSchema, by hand.
void ExpectFollowsSchema(const json& arguments) {
  std::set<std::string> names;
  for (const auto& [name, value] : arguments.items()) {
    names.insert(name);
    const bool is_unit = value == "c" || value == "k\"\n";
    if (name == "place") {
      EXPECT_TRUE(value.is_string() &&
                  NumCharacters(value.get<std::string>()) <= 12);
    } else if (name == "unit") {
      EXPECT_TRUE(is_unit || value.is_null()) << value;
    } else if (name == "days") {
      EXPECT_TRUE(value.is_number_integer() && value >= 0 && value <= 9);
    } else if (name == "note") {
      EXPECT_TRUE(value.is_string() || value.is_null());
    } else {
      EXPECT_EQ(name, "list");
      EXPECT_TRUE(value.is_array() && value.size() <= 2);
      for (const json& each : value) {
        EXPECT_TRUE(each == "c" || each == "k\"\n");
      }
    }
  }
  EXPECT_TRUE(names.contains("place") && names.contains("days"));
}

// Characters, and what a draw does not find by chance.
Tokenizer TagPieces() {
  std::vector<std::string> pieces = AsciiPieces();
  for (const char* piece : {"\n</parameter>\n", "</parameter>", "</function>",
                            "\n<parameter=", "null", "</", "\xc3\xa9"}) {
    pieces.emplace_back(piece);
  }
  return PiecesTokenizer(pieces);
}

TEST(ToolCallGrammarTest, ParametersFollowTheirSchemas) {
  const std::vector<CallableTool> tools = {
      {"look.up-2", kWeatherSchema},
      {"now", R"({"additionalProperties": false})"}};
  const Tokenizer tokenizer = TagPieces();
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  for (const ToolCallFormat format : {kTags, kPython}) {
    const auto grammar = ToolCallGrammar(format, tools, /*one_call=*/false,
                                         tokenizer, kMaxBytes);
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    const auto matcher = vocabulary.Compile(*grammar);
    ASSERT_TRUE(matcher.ok()) << matcher.error().message;
    std::mt19937 random(5);
    std::set<std::string> seen;
    int num_texts = 0;
    for (int i = 0; i < 60; ++i) {
      const auto tokens = DrawText(matcher->Clone(), tokenizer.vocab_size(),
                                   kPiecesEnd, kMaxDrawnTokens, random);
      if (!tokens) continue;  // A string without end.
      ++num_texts;
      const std::string text = *tokenizer.Decode(*tokens, true);
      for (const AnswerPart& part : PartsOf(format, tools, {text})) {
        ASSERT_TRUE(part.call.has_value()) << text;
        const json arguments = json::parse(part.call->arguments_json);
        SCOPED_TRACE(text);
        if (part.call->name == "now") {
          EXPECT_EQ(arguments, json::object());
          continue;
        }
        EXPECT_EQ(part.call->name, "look.up-2");
        ExpectFollowsSchema(arguments);
        for (const auto& [name, value] : arguments.items()) {
          seen.insert(name + " " + value.type_name());
        }
      }
    }
    EXPECT_GE(num_texts, 20);
    seen.erase("note null");  // Between tags a draw of four letters.
    EXPECT_EQ(seen, (std::set<std::string>{"place string", "unit string",
                                           "unit null", "days number",
                                           "note string", "list array"}));
  }
}

// Whether it may be written to its end, a character at a time.
bool IsWithin(const GrammarMatcher& grammar, const Tokenizer& tokenizer,
              const std::string& text) {
  GrammarMatcher matcher = grammar.Clone();
  for (const char c : text) {
    if (!matcher.Accept(*tokenizer.IdOf(std::string(1, c))).ok()) return false;
  }
  return matcher.complete() || matcher.Accept(kPiecesEnd).ok();
}

std::string InTags(const std::string& parameters) {
  return "<tool_call>\n<function=look.up-2>\n" + parameters +
         "</function>\n</tool_call>";
}

std::string Parameter(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
}

std::string InPython(const std::string& calls) {
  return "<|tool_call_start|>\n```python\n" + calls +
         "\n```\n<|tool_call_end|>";
}

TEST(ToolCallGrammarTest, CallsAsTemplatesWriteThem) {
  const std::vector<CallableTool> tools = {{"look.up-2", kWeatherSchema}};
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  const auto compiled = [&](ToolCallFormat format) {
    return *vocabulary.Compile(*ToolCallGrammar(
        format, tools, /*one_call=*/true, tokenizer, kMaxBytes));
  };
  const GrammarMatcher tags = compiled(kTags);
  const std::string place = Parameter("place", "Oslo <b> & co");
  const std::string days = Parameter("days", "3");
  for (const auto& [text, within] : std::vector<std::pair<std::string, bool>>{
           {Parameter("place", "Oslo") + days, true},
           {Parameter("place", "") + days, true},
           {Parameter("place", "</p>\n<a") + days, true},
           {place + days, false},  // too long
           {Parameter("place", "x") + Parameter("unit", "c") + days, true},
           {Parameter("place", "x") + Parameter("unit", "k\"\n") + days, true},
           {Parameter("place", "x") + Parameter("unit", "null") + days, true},
           {Parameter("place", "x") + Parameter("unit", "d") + days, false},
           {Parameter("place", "x"), false},
           {days + Parameter("place", "x"), false},
           {Parameter("place", "x") + Parameter("days", "10"), false},
           {Parameter("place", "x") + days + Parameter("list", "[\"c\"]"),
            true},
           {Parameter("place", "x") + days + Parameter("more", "x"), false}}) {
    EXPECT_EQ(IsWithin(tags, tokenizer, InTags(text)), within) << text;
  }
  EXPECT_FALSE(IsWithin(
      tags, tokenizer,
      InTags("<parameter=place>\na</parameter>\n</parameter>\n" + days)));
  const GrammarMatcher python = compiled(kPython);
  for (const auto& [call, within] : std::vector<std::pair<std::string, bool>>{
           {R"(look.up-2(place="Oslo",days=3))", true},
           {R"(look.up-2(place="\n",unit=null,days=0,list=["c"]))", true},
           {R"(look.up-2(days=3))", false},
           {R"(look.up-2(place="Oslo",days=10))", false},
           {R"(look.up-2(place="Oslo",days=3,))", false},
           {R"(look.up-2(place="Oslo",days=3,more=1))", false}}) {
    EXPECT_EQ(IsWithin(python, tokenizer, InPython(call)), within) << call;
  }
}

// Each of several that may be absent, first and last.
TEST(ToolCallGrammarTest, ParametersThatMayBeAbsent) {
  const std::vector<CallableTool> tools = {
      {"f", R"({"properties": {"a": {"type": "integer"},
                               "b": {"type": "integer"},
                               "c": {"type": "integer"}},
                "required": ["b"]})"},
      {"g", R"({"properties": {"a": {"type": "integer"},
                               "b": {"type": "integer"}}})"},
      {"h", ""}};
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  const GrammarMatcher python = *vocabulary.Compile(*ToolCallGrammar(
      kPython, tools, /*one_call=*/false, tokenizer, kMaxBytes));
  for (const auto& [call, within] :
       std::vector<std::pair<std::string, bool>>{{"f(b=1)", true},
                                                 {"f(a=1,b=1)", true},
                                                 {"f(b=1,c=1)", true},
                                                 {"f(a=1,b=1,c=1)", true},
                                                 {"f(a=1,c=1)", false},
                                                 {"f(,b=1)", false},
                                                 {"g()", true},
                                                 {"g(a=1)", true},
                                                 {"g(b=1)", true},
                                                 {"g(a=1,b=1)", true},
                                                 {"g(b=1,a=1)", false},
                                                 {"h()", true},
                                                 {"g()\nh()", true},
                                                 {"g() h()", false}}) {
    EXPECT_EQ(IsWithin(python, tokenizer, InPython(call)), within) << call;
  }
  const GrammarMatcher tags = *vocabulary.Compile(
      *ToolCallGrammar(kTags, tools, /*one_call=*/false, tokenizer, kMaxBytes));
  for (const auto& [body, within] : std::vector<std::pair<std::string, bool>>{
           {"f>\n" + Parameter("b", "1"), true},
           {"f>\n" + Parameter("a", "1"), false},
           {"g>\n", true},
           {"h>\n" + Parameter("x", "y") + Parameter("z", "1"), true},
           {"h>\n" + Parameter("x y", "y"), false}}) {
    const std::string call =
        "<tool_call>\n<function=" + body + "</function>\n</tool_call>";
    EXPECT_EQ(IsWithin(tags, tokenizer, call), within) << body;
    EXPECT_EQ(IsWithin(tags, tokenizer, call + "\n" + call), within) << body;
  }
}

// Why a tool with this schema cannot be forced; empty: it can.
std::string Refusal(ToolCallFormat format, const std::string& schema) {
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const std::vector<CallableTool> tools = {{"f", schema}};
  const auto grammar =
      ToolCallGrammar(format, tools, /*one_call=*/true, tokenizer, kMaxBytes);
  return grammar.ok() ? "" : grammar.error().message;
}

std::string WithParameter(const std::string& schema) {
  return R"({"properties": {"p": )" + schema + "}}";
}

TEST(ToolCallGrammarTest, WhatIsNoListOfParametersIsRefused) {
  for (const ToolCallFormat format : {kTags, kPython}) {
    for (const char* schema :
         {"true", "[]", R"({"type": "string"})", R"({"minProperties": 1})",
          R"({"anyOf": []})", R"({"properties": []})", R"({"required": 1})",
          R"({"required": [1]})",
          R"({"required": ["a"], "additionalProperties": false})"}) {
      EXPECT_NE(Refusal(format, schema).find("schema of f"), std::string::npos)
          << schema;
    }
    EXPECT_NE(
        Refusal(format, R"({"title": ")" + std::string(kMaxBytes, 'x') + "\"}"),
        "");
    // Each of many with the same definitions.
    std::string many = R"({"$defs": {"d": {"description": ")" +
                       std::string(kMaxBytes / 4, 'x') +
                       R"(", "type": "integer"}}, "properties": {)";
    for (int i = 0; i < 10; ++i) {
      many += fmt::format("{}\"p{}\": {{\"$ref\": \"#/$defs/d\"}}",
                          i == 0 ? "" : ",", i);
    }
    EXPECT_NE(Refusal(format, many + "}}").find("too large"),
              std::string::npos);
  }
  EXPECT_NE(Refusal(kTags, R"({"properties": {"a>": {}}})"), "");
  EXPECT_NE(Refusal(kPython, R"({"properties": {"a b": {}}})"), "");
}

TEST(ToolCallGrammarTest, WhatPlainTextCannotBeHeldToIsRefused) {
  for (const char* schema :
       {R"({"type": "string", "pattern": "a"})",
        R"({"type": "string", "format": "date"})",
        R"({"oneOf": [{"type": "string"}, {"type": "null"}]})",
        R"({"anyOf": [{"type": "string"}, {"type": "integer",
                                           "minimum": 1}]})",
        R"({"anyOf": [{"type": "string"}, {"enum": [1, 2]}]})",
        R"({"anyOf": [{"enum": ["a"]}, {"type": "integer"}]})",
        R"({"anyOf": [{"type": "string", "maxLength": 1},
                      {"type": "string"}]})",
        R"({"enum": ["null", null]})", R"({"enum": ["a</parameter>"]})",
        R"({"enum": []})", R"({"$ref": "#/$defs/none"})"}) {
    const std::string refusal = Refusal(kTags, WithParameter(schema));
    EXPECT_NE(refusal.find("schema of f, parameter \"p\""), std::string::npos)
        << schema << refusal;
    EXPECT_EQ(Refusal(kPython, WithParameter(schema)), "") << schema;
  }
  for (const char* schema :
       {"{}", "true", R"({"description": "d"})", R"({"type": "string"})",
        R"({"type": ["string", "null", "integer"]})",
        R"({"type": ["boolean", "null"]})", R"({"enum": ["a", 1, true]})",
        R"({"const": "x"})", R"({"type": "array"})",
        R"({"allOf": [{"type": "string"}]})"}) {
    EXPECT_EQ(Refusal(kTags, WithParameter(schema)), "") << schema;
  }
}

}  // namespace
}  // namespace winnow
