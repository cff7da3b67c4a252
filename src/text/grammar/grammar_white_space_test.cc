// What may stand between the tokens of a JSON answer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/grammar/grammar_case.h"

namespace winnow {
namespace {

class GrammarWhiteSpaceTest : public testing::Test {
 protected:
  GrammarWhiteSpaceTest() : tokenizer_(PiecesTokenizer(Pieces())) {}

  static std::vector<std::string> Pieces() {
    std::vector<std::string> pieces = AsciiPieces();
    pieces.emplace_back("\t");
    pieces.emplace_back("\r");
    return pieces;
  }

  Result<GrammarMatcher> Compiled(const std::string& schema,
                                  std::optional<std::string> white_space) {
    return vocabulary_.Compile({.kind = GrammarKind::kJsonSchema,
                                .source = schema,
                                .white_space = std::move(white_space)});
  }

  // Whether a text is within a schema.
  bool Accepts(const std::string& text, std::optional<std::string> white_space,
               const std::string& schema) {
    auto matcher = Compiled(schema, std::move(white_space));
    EXPECT_TRUE(matcher.ok()) << matcher.error().message;
    for (const char c : text) {
      if (!matcher->Accept(*tokenizer_.IdOf(std::string(1, c))).ok()) {
        return false;
      }
    }
    return matcher->complete() || matcher->Accept(kPiecesEnd).ok();
  }

  Tokenizer tokenizer_;
  GrammarVocabulary vocabulary_ = VocabularyOf(tokenizer_, kPiecesEnd);
};

constexpr const char* kAnything = R"({"type": "object"})";
constexpr const char* kList =
    R"({"type": "array", "items": {"type": "array",
        "items": {"type": "integer"}}, "maxItems": 3})";

// As Python's json.dumps and JavaScript's JSON.stringify write it: compact,
// by default, and indented by 2, 4 or a tab.
TEST_F(GrammarWhiteSpaceTest, TheUsualWaysToWriteAreAllowed) {
  for (const char* text :
       {R"({"a":[1,{"b":null}],"c":{}})", R"({"a": [1, {"b": null}], "c": {}})",
        "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ]\n}",
        "{\n    \"a\": [\n        1,\n        {\n            \"b\": null\n"
        "        }\n    ],\n    \"c\": {}\n}",
        "{\n\t\"a\": [\n\t\t1\n\t]\n}", "{ \"a\": [ 1, 2 ] }"}) {
    EXPECT_TRUE(Accepts(text, {}, kAnything)) << text;
  }
  EXPECT_TRUE(Accepts("[[1, 2], [3]]", {}, kList));
  EXPECT_TRUE(Accepts("[\n  [\n    1,\n    2\n  ]\n]", {}, kList));
}

TEST_F(GrammarWhiteSpaceTest, RunsAreBounded) {
  for (const char* text : {"{  \"a\": 1}", "{\"a\":  1}", "{\n\n\"a\": 1}",
                           "{ \n\"a\": 1}", "{\n \t\"a\": 1}", "{\t\"a\": 1}",
                           "{\r\n\"a\": 1}", " {\"a\": 1}", "{\"a\": 1} "}) {
    EXPECT_FALSE(Accepts(text, {}, kAnything)) << text;
  }
  const std::string most(20, ' ');
  EXPECT_TRUE(Accepts("{\n" + most + "\"a\": 1}", {}, kAnything));
  EXPECT_FALSE(Accepts("{\n" + most + " \"a\": 1}", {}, kAnything));
  // A draw of white space alone comes to its end.
  const auto matcher = Compiled(kAnything, {});
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  GrammarMatcher walk = matcher->Clone();
  ASSERT_TRUE(walk.Accept(*tokenizer_.IdOf("{")).ok());
  int num_spaces = 0;
  for (const char* next : {"\n", " ", "\t"}) {
    while (num_spaces < 100 &&
           walk.Clone().Accept(*tokenizer_.IdOf(next)).ok()) {
      ASSERT_TRUE(walk.Accept(*tokenizer_.IdOf(next)).ok());
      ++num_spaces;
    }
  }
  EXPECT_EQ(num_spaces, 21);
}

// A client's own "x-guidance" is a keyword like any that nobody knows.
TEST_F(GrammarWhiteSpaceTest, ASchemaCannotAskForMore) {
  const std::string schema =
      R"({"type": "object", "x-guidance": {"whitespace_pattern": "[ ]+",
          "lenient": true}})";
  EXPECT_FALSE(Accepts("{  \"a\": 1}", {}, schema));
  EXPECT_FALSE(
      Compiled(R"({"x-guidance": {"lenient": true}, "not": {}})", {}).ok());
  EXPECT_FALSE(Accepts("[  1]", {}, "true"));
}

TEST_F(GrammarWhiteSpaceTest, ARequestMayAskForOtherWhiteSpace) {
  const std::string spaced = R"({"a" : 1})";
  const std::string close = R"({"a":1})";
  EXPECT_TRUE(Accepts(close, "", kAnything));
  EXPECT_FALSE(Accepts(spaced, "", kAnything));
  EXPECT_FALSE(Accepts("{\"a\": 1}", "", kAnything));
  for (const char* pattern : {"[ ]?", " ", "[\\n ]{0,3}", "\\s*", "[ \\t]*"}) {
    EXPECT_TRUE(Accepts(close, pattern, kAnything)) << pattern;
    EXPECT_TRUE(Accepts(spaced, pattern, kAnything)) << pattern;
  }
  EXPECT_TRUE(Accepts("{\n\n\n\"a\":   1}", "[\\n ]*", kAnything));
  EXPECT_FALSE(Accepts("{\n\"a\": 1}", "[ ]?", kAnything));
}

// What it matches stands in an answer that is to be JSON.
TEST_F(GrammarWhiteSpaceTest, APatternIsOfWhiteSpaceAlone) {
  for (const auto& [pattern, complaint] :
       std::vector<std::pair<std::string, std::string>>{
           {"[ ", "must be an expression"},
           {"x", "must match spaces, tabs and line ends alone"},
           {"[ ,]?", "must match spaces, tabs and line ends alone"},
           {".*", "must match spaces, tabs and line ends alone"}}) {
    const auto matcher = Compiled(kAnything, pattern);
    ASSERT_FALSE(matcher.ok()) << pattern;
    EXPECT_NE(
        matcher.error().message.find("the pattern of white space " + complaint),
        std::string::npos)
        << matcher.error().message;
  }
}

}  // namespace
}  // namespace winnow
