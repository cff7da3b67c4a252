#include "text/tools/tool_call_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "text/grammar/grammar_case.h"
#include "text/tokenize/answer_text.h"
#include "text/tools/tool_calls_case.h"

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
            ToolCallGrammar(format, tools, one_call, tokenizer, kMaxBytes)
                ->grammar);
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
    const auto matcher = vocabulary.Compile(grammar->grammar);
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
    return *vocabulary.Compile(
        ToolCallGrammar(format, tools, /*one_call=*/true, tokenizer, kMaxBytes)
            ->grammar);
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
  const GrammarMatcher python = *vocabulary.Compile(
      ToolCallGrammar(kPython, tools, /*one_call=*/false, tokenizer, kMaxBytes)
          ->grammar);
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
      ToolCallGrammar(kTags, tools, /*one_call=*/false, tokenizer, kMaxBytes)
          ->grammar);
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

// What of a tool with this schema is not followed. What is left compiles.
std::vector<std::string> Unheld(ToolCallFormat format,
                                const std::string& schema) {
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const std::vector<CallableTool> tools = {{"f", schema}};
  const auto held =
      ToolCallGrammar(format, tools, /*one_call=*/true, tokenizer, kMaxBytes);
  if (!held.ok()) return {held.error().message};
  const auto matcher =
      VocabularyOf(tokenizer, kPiecesEnd).Compile(held->grammar);
  if (!matcher.ok()) return {matcher.error().message};
  return held->unheld;
}

using Names = std::vector<std::string>;

TEST(ToolCallGrammarTest, WhatIsNoObjectIsRefused) {
  for (const ToolCallFormat format : {kTags, kPython}) {
    for (const char* schema :
         {"true", R"({"type": "string"})",
          R"({"required": ["a"], "additionalProperties": false})"}) {
      EXPECT_NE(Refusal(format, schema), "") << schema;
    }
    EXPECT_NE(
        Refusal(format, R"({"title": ")" + std::string(kMaxBytes, 'x') + "\"}"),
        "");
  }
  EXPECT_NE(Refusal(kTags, R"({"properties": {"a>": {}}, "required": ["a>"]})"),
            "");
  EXPECT_NE(
      Refusal(kPython, R"({"properties": {"a b": {}}, "required": ["a b"]})"),
      "");
  EXPECT_EQ(Unheld(kTags, R"({"properties": {"a>": {}}})"),
            Names{"f.properties.a>"});
}

// A reference is local, whatever the form.
TEST(ToolCallGrammarTest, AReferenceToElsewhereIsNamed) {
  for (const ToolCallFormat format :
       {kTags, kPython, ToolCallFormat::kTagged, ToolCallFormat::kBareObject}) {
    EXPECT_NE(Refusal(format, WithParameter(R"({"$ref": "http://a/b#/c"})"))
                  .find(R"("http://a/b#/c")"),
              std::string::npos);
    EXPECT_NE(Refusal(format, WithParameter(R"({"$ref": "#/$defs/none"})"))
                  .find(R"("#/$defs/none")"),
              std::string::npos);
  }
}

// A call that is not held to all of a schema is better than none.
TEST(ToolCallGrammarTest, WhatNoGrammarHoldsIsLeftOpenAndNamed) {
  for (const ToolCallFormat format :
       {kTags, kPython, ToolCallFormat::kTagged, ToolCallFormat::kBareObject,
        ToolCallFormat::kMarked}) {
    const std::string properties =
        R"("properties": {"p": {"type": "integer"}})";
    for (const char* keyword :
         {R"("not": {"required": ["q"]})",
          R"("dependentRequired": {"p": ["q"]})",
          R"("dependentSchemas": {"p": {}})",
          R"("if": {"required": ["p"]}, "then": {"required": ["q"]})"}) {
      const std::string name(std::string_view(keyword).substr(
          1, std::string_view(keyword).find('"', 1) - 1));
      const Names unheld =
          Unheld(format, "{" + properties + ", " + keyword + "}");
      ASSERT_FALSE(unheld.empty()) << keyword;
      EXPECT_EQ(unheld[0], "f." + name) << keyword;
    }
    EXPECT_EQ(Unheld(format, WithParameter(
                                 R"({"type": "array", "uniqueItems": true})")),
              Names{"f.properties.p.uniqueItems"});
    EXPECT_EQ(Unheld(format, R"({"patternProperties": {"^a": {}, "^b": {}}})"),
              Names{"f.patternProperties"});
    // Alternatives that may both be met, as no grammar of JSON has them.
    EXPECT_FALSE(Unheld(format, WithParameter(R"({"oneOf": [{"type": "integer"},
                           {"type": "integer", "minimum": 2}]})"))
                     .empty());
    // What no value meets: calls have any arguments.
    EXPECT_EQ(Unheld(format, R"({"required": 1})"), Names{"f"});
    EXPECT_EQ(Unheld(format, WithParameter(R"({"type": "integer",
                                               "format": "int32"})")),
              Names{"f.properties.p.format"});
  }
}

TEST(ToolCallGrammarTest, WhatPlainTextCannotBeHeldToIsNamed) {
  const std::string place = "f.properties.p";
  for (const auto& [schema, unheld] :
       std::vector<std::pair<std::string, std::string>>{
           {R"({"type": "string", "pattern": "a"})", place + ".pattern"},
           {R"({"type": "string", "format": "date"})", place + ".format"},
           {R"({"anyOf": [{"type": "string"}, {"type": "integer",
                                               "minimum": 1}]})",
            place},
           {R"({"anyOf": [{"type": "string"}, {"enum": [1, 2]}]})", place},
           {R"({"anyOf": [{"enum": ["a"]}, {"type": "integer"}]})", place},
           {R"({"anyOf": [{"type": "string", "maxLength": 1},
                          {"type": "string"}]})",
            place},
           {R"({"enum": ["a</parameter>"]})", place}}) {
    EXPECT_EQ(Unheld(kTags, WithParameter(schema)), Names{unheld}) << schema;
    EXPECT_EQ(Unheld(kPython, WithParameter(schema)), Names()) << schema;
  }
  for (const char* schema :
       {"{}", "true", R"({"description": "d"})", R"({"type": "string"})",
        R"({"type": ["string", "null", "integer"]})",
        R"({"type": ["boolean", "null"]})", R"({"enum": ["a", 1, true]})",
        R"({"const": "x"})", R"({"type": "array"})",
        R"({"enum": ["null", null]})", R"({"allOf": [{"type": "string"}]})"}) {
    EXPECT_EQ(Unheld(kTags, WithParameter(schema)), Names()) << schema;
  }
}

// By an escaped pointer, and where all of a schema is a reference.
TEST(ToolCallGrammarTest, ReferencesAreFollowedInEachForm) {
  const std::string parameters = R"({"$ref": "#/definitions/Args%3Cx%3E",
      "definitions": {"Args<x>": {"type": "object",
        "properties": {"n": {"$ref": "#/definitions/a~1b"}},
        "required": ["n"], "additionalProperties": false},
        "a/b": {"type": "integer", "minimum": 0, "maximum": 9}}})";
  const std::vector<CallableTool> tools = {{"f", parameters}};
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  for (const ToolCallFormat format :
       {kTags, kPython, ToolCallFormat::kTagged, ToolCallFormat::kBareObject,
        ToolCallFormat::kMarked}) {
    const auto held =
        ToolCallGrammar(format, tools, /*one_call=*/true, tokenizer, kMaxBytes);
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_EQ(held->unheld, Names());
    std::mt19937 random(1);
    const auto tokens =
        DrawText(*vocabulary.Compile(held->grammar), tokenizer.vocab_size(),
                 kPiecesEnd, kMaxDrawnTokens, random);
    ASSERT_TRUE(tokens.has_value());
    const std::string text = *tokenizer.Decode(*tokens, true);
    const auto parts = PartsOf(format, tools, {text});
    ASSERT_EQ(parts.size(), 1u) << text;
    ASSERT_TRUE(parts[0].call.has_value()) << text;
    const json arguments = json::parse(parts[0].call->arguments_json);
    ASSERT_TRUE(arguments.contains("n")) << text;
    EXPECT_TRUE(arguments["n"].is_number_integer() && arguments["n"] < 10);
  }
}

// An answer is one call, or calls, or what the other grammar says, and nothing
// between them.
TEST(ToolCallGrammarTest, CallsOrAnotherGrammar) {
  const std::vector<CallableTool> tools = {
      {"f", R"({"$defs": {"n": {"enum": [1, 2]}}, "type": "object",
                "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"],
                "additionalProperties": false})"}};
  const Grammar schema = {
      GrammarKind::kJsonSchema,
      R"({"$defs": {"n": {"enum": [3, 4]}}, "type": "object",
          "properties": {"name": {"$ref": "#/$defs/n"}}, "required": ["name"],
          "additionalProperties": false})"};
  const Grammar choice = {GrammarKind::kChoice, R"(["yes", "no"])"};
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  for (const ToolCallFormat format :
       {kTags, kPython, ToolCallFormat::kTagged, ToolCallFormat::kBareObject,
        ToolCallFormat::kMarked}) {
    for (const Grammar& otherwise : {schema, choice}) {
      const auto held = ToolCallGrammar(format, tools, /*one_call=*/false,
                                        tokenizer, kMaxBytes, &otherwise);
      ASSERT_TRUE(held.ok()) << held.error().message;
      const auto matcher = vocabulary.Compile(held->grammar);
      ASSERT_TRUE(matcher.ok()) << matcher.error().message;
      int num_calls = 0;
      int num_texts = 0;
      for (unsigned seed = 0; seed < 40; ++seed) {
        std::mt19937 random(seed);
        const auto tokens = DrawText(matcher->Clone(), tokenizer.vocab_size(),
                                     kPiecesEnd, kMaxDrawnTokens, random);
        ASSERT_TRUE(tokens.has_value());
        const std::string text = *tokenizer.Decode(*tokens, true);
        const auto parts = PartsOf(format, tools, {text});
        ASSERT_FALSE(parts.empty()) << text;
        if (!parts[0].call) {
          ASSERT_EQ(parts.size(), 1u) << text;
          ++num_texts;
          if (otherwise.kind == GrammarKind::kChoice) {
            EXPECT_TRUE(text == "yes" || text == "no") << text;
          } else {
            const json value = json::parse(text);
            EXPECT_TRUE(value.size() == 1 && value["name"] >= 3) << text;
          }
          continue;
        }
        ++num_calls;
        for (const AnswerPart& part : parts) {
          ASSERT_TRUE(part.call.has_value()) << text;
          const json arguments = json::parse(part.call->arguments_json);
          EXPECT_TRUE(arguments.size() == 1 && arguments["n"] <= 2) << text;
        }
      }
      EXPECT_GT(num_calls, 0) << static_cast<int>(format);
      EXPECT_GT(num_texts, 0) << static_cast<int>(format);
    }
  }
}

}  // namespace
}  // namespace winnow
