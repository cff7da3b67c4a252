// Grammars made to take forever are refused, or take no longer than others.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "text/grammar/grammar_case.h"

namespace winnow {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Wall time, for a machine that does much else and a build that checks itself;
// alone each takes less than one of these.
constexpr std::chrono::seconds kMaxTime(20);

std::string Repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// "{}" stands for a number, "{0}{0}" twice for the same.
std::string Numbered(fmt::string_view part, int count,
                     const std::string& between) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    if (i > 0) all += between;
    all += fmt::vformat(part, fmt::make_format_args(i));
  }
  return all;
}

struct Bomb {
  std::string name;
  GrammarKind kind;
  std::string source;
};

std::vector<Bomb> Expressions() {
  const auto kind = GrammarKind::kRegex;
  return {{"nested repetition", kind, "((a{1,1000}){1,1000}){1,1000}"},
          {"classes repeated", kind, R"((\w{1,1000}\d{1,1000}){1,1000})"},
          {"backtracking", kind, "(x+x+)+y"},
          {"ambiguity", kind, "(a|a)*(a|aa)+"},
          {"a window", kind, "[ab]*a[ab]{1000}"},
          {"any window", kind, "(.|\n)*a(.|\n){60}"},
          {"optional", kind, "(a?){5000}a{5000}"},
          {"deep", kind, Repeated("(", 240) + "a" + Repeated(")*", 240)},
          {"deeper", kind, Repeated("(", 50'000) + "a"},
          {"alternatives", kind, Numbered("w{}x", 20'000, "|")},
          {"large", kind, std::string(size_t{1} << 20, 'a')}};
}

std::vector<Bomb> Larks() {
  const auto kind = GrammarKind::kLark;
  return {
      {"ambiguity", kind, "start: e\ne: e e e | e e | \"a\" | \"aa\""},
      {"a chain", kind,
       "start: r0\n" + Numbered("r{0}: \"x{0}\" | r{0} \"y\"\n", 5'000, "")},
      {"doubling", kind,
       "start: R40\nR0: \"a\"\n" +
           [] {
             std::string rules;
             for (int i = 1; i <= 40; ++i) {
               rules += fmt::format("R{}: R{} R{}\n", i, i - 1, i - 1);
             }
             return rules;
           }()},
      {"repetition", kind,
       "start: a{1,100000}\na: b{1,100000}\nb: \"x\" | \"y\""},
      {"nothing often", kind, "start: e{0,2000}\ne: \"a\"? \"b\"? \"c\"?"},
      {"intersections", kind,
       "start: R\nR: " + Numbered("/(.|\\n)*{}(.|\\n)*/", 30, " & ")},
      {"nested repetition", kind,
       "start: R0\n" +
           [] {
             std::string rules;
             for (int i = 0; i < 6'000; ++i) {
               rules += fmt::format("R{}: (R{} \"a\")*\n", i, i + 1);
             }
             return rules + "R6000: \"b\"\n";
           }()},
      {"complement", kind, "start: R\nR: ~/.*a.{30}/"},
      {"deep", kind, "start: " + Repeated("(", 100'000) + "\"a\""}};
}

std::string Properties(int count, bool required) {
  std::string schema = R"({"type": "object", "additionalProperties": false, )";
  if (required) {
    schema += R"("required": [)" + Numbered(R"("p{}")", count, ",") + "], ";
  }
  return schema + R"("properties": {)" +
         Numbered(R"("p{}": {{"type": "string"}})", count, ",") + "}}";
}

std::vector<Bomb> Schemas() {
  const auto kind = GrammarKind::kJsonSchema;
  const std::string two_ways =
      R"({{"anyOf": [{{"properties": {{"a{0}": {{"type": "string"}}}}}},
                     {{"properties": {{"b{0}": {{"type": "null"}}}}}}]}})";
  const std::string window =
      R"({{"type": "string", "pattern": ".*a.{{{}}}b"}})";
  return {{"many properties", kind, Properties(10'000, false)},
          {"many required", kind, Properties(10'000, true)},
          {"as many as may be", kind, Properties(400, false)},
          {"2^30 ways", kind,
           R"({"allOf": [)" + Numbered(two_ways, 30, ",") + "]}"},
          {"2^30 ways, large", kind,
           R"({"allOf": [)" + Numbered(two_ways, 300, ",") + "]}"},
          {"patterns met", kind,
           R"({"allOf": [)" + Numbered(window, 30, ",") + "]}"},
          {"a pattern and lengths", kind,
           R"({"type": "string", "pattern": ".*a.{30}b.*", "maxLength": 20})"},
          {"patterns of names", kind,
           R"({"patternProperties": {)" +
               Numbered(R"("a.*{}": {{}})", 300, ",") + "}}"},
          {"multiples", kind, R"({"type": "integer", "multipleOf": 99999999})"},
          {"fine multiples", kind, R"({"type": "number", "multipleOf": 1e-7})"},
          {"as fine as may be", kind,
           R"({"type": "number", "multipleOf": 9.97, "minimum": 0.125})"},
          {"recursion", kind,
           R"({"anyOf": [{"type": "null"},
                     {"type": "array", "items": {"$ref": "#"}}]})"},
          {"endless recursion", kind, R"({"allOf": [{"$ref": "#"}]})"},
          {"lengths", kind,
           R"({"type": "string", "minLength": 100000, "maxLength": 1000000})"},
          {"items", kind,
           R"({"type": "array", "items": {"type": "array", "items":
           {"type": "integer"}, "maxItems": 1000}, "maxItems": 1000})"},
          {"a format's length", kind,
           R"({"type": "string", "format": "email", "minLength": 100000})"},
          {"values", kind,
           R"({"enum": [)" + Numbered(R"("{}")", 20'000, ",") + "]}"},
          {"deep", kind,
           Repeated(R"({"items": )", 100) + "{}" + Repeated("}", 100)},
          {"deeper", kind,
           Repeated(R"({"items": )", 20'000) + "{}" + Repeated("}", 20'000)}};
}

class GrammarLimitsTest : public testing::Test {
 protected:
  // Compiles it and draws 200 tokens, the first that is allowed or a random
  // one. Returns whether all went well.
  bool Run(const Bomb& bomb) {
    auto matcher = vocabulary_.Compile({bomb.kind, bomb.source});
    if (!matcher.ok()) {
      EXPECT_LT(matcher.error().message.size(), 700u);
      return false;
    }
    const auto text = DrawText(*std::move(matcher), tokenizer_.vocab_size(),
                               kPiecesEnd, 200, random_);
    return text.has_value();
  }

  void ExpectBounded(const std::vector<Bomb>& bombs) {
    for (const Bomb& bomb : bombs) {
      const auto began = Clock::now();
      Run(bomb);
      EXPECT_LT(Clock::now() - began, kMaxTime) << bomb.name;
    }
  }

  std::mt19937 random_{1};
  Tokenizer tokenizer_ = PiecesTokenizer(AsciiPieces());
  GrammarVocabulary vocabulary_ = VocabularyOf(tokenizer_, kPiecesEnd);
};

TEST_F(GrammarLimitsTest, ExpressionsTakeBoundedTime) {
  ExpectBounded(Expressions());
}

TEST_F(GrammarLimitsTest, LarksTakeBoundedTime) { ExpectBounded(Larks()); }

TEST_F(GrammarLimitsTest, SchemasTakeBoundedTime) { ExpectBounded(Schemas()); }

TEST_F(GrammarLimitsTest, SaysWhichLimitAGrammarExceeds) {
  const auto complaint = [this](GrammarKind kind, const std::string& source) {
    const auto matcher = vocabulary_.Compile({kind, source});
    return matcher.ok() ? "" : matcher.error().message;
  };
  const auto schema = GrammarKind::kJsonSchema;
  EXPECT_EQ(complaint(GrammarKind::kRegex, std::string(300'000, 'a')),
            "must be at most 262144 bytes, is 300000");
  EXPECT_EQ(complaint(GrammarKind::kRegex, std::string(300, '(')),
            "brackets must nest at most 256 deep, are deeper");
  EXPECT_EQ(complaint(GrammarKind::kLark, "start: " + Repeated("\"a\"* ", 257)),
            "\"*\", \"+\" and \"{\" must be at most 256, are 257");
  EXPECT_EQ(complaint(schema, Properties(401, false)),
            "properties that are not required must be at most 400, are 401");
  EXPECT_EQ(complaint(schema, Properties(2001, true)),
            "properties must be at most 2000 in all, are more");
  EXPECT_EQ(complaint(schema, R"({"multipleOf": 10.01})"),
            "multipleOf must have a value of at most 1000 without its point, "
            "is 10.01");
  for (const char* met :
       {R"({"allOf": [{"type": "string", "pattern": "a"}]})",
        R"({"anyOf": [{"pattern": "a"}, {}], "type": "string"})",
        R"({"$defs": {"a": {"pattern": "a"}}, "$ref": "#/$defs/a",
            "minLength": 3})"}) {
    EXPECT_TRUE(complaint(schema, met).starts_with("pattern must be absent"))
        << met;
  }
  EXPECT_TRUE(complaint(schema, R"({"patternProperties": {"a": {}, "b": {}}})")
                  .starts_with("patternProperties must"));
}

// It would be answered with what it does not describe.
TEST_F(GrammarLimitsTest, SaysWhatIsNotFollowedToTheLetter) {
  const auto schema = GrammarKind::kJsonSchema;
  const std::pair<const char*, const char*> refused[] = {
      {R"({"exclusiveMinimum": 0, "maximum": 0.5})", "bounds of which one"},
      {R"({"type": "number", "minimum": 3, "exclusiveMaximum": 3.5})",
       "bounds of which one"},
      {R"({"type": "number", "exclusiveMaximum": 0})", "exclusiveMaximum must"},
      {R"({"enum": ["a", 1234567890123456789]})", "numbers must be less"},
      {R"({"const": [9007199254740993]})", "numbers must be less"},
      {R"({"type": "integer", "minimum": 1e19})", "numbers must be less"},
      {R"({"type": "string", "pattern": "a\\"})", "pattern must not end"}};
  for (const auto& [source, complaint] : refused) {
    const auto matcher = vocabulary_.Compile({schema, source});
    ASSERT_FALSE(matcher.ok()) << source;
    EXPECT_TRUE(matcher.error().message.starts_with(complaint))
        << matcher.error().message;
  }
  EXPECT_FALSE(vocabulary_.Compile({GrammarKind::kRegex, R"(6\)"}).ok());
  EXPECT_TRUE(vocabulary_.Compile({GrammarKind::kRegex, R"(6\\)"}).ok());
  for (const char* followed :
       {R"({"type": "number", "exclusiveMinimum": 0, "maximum": 1})",
        R"({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2})",
        R"({"type": "number", "minimum": 0.25, "maximum": 0.5})",
        R"({"const": -9007199254740991})"}) {
    EXPECT_TRUE(vocabulary_.Compile({schema, followed}).ok()) << followed;
  }
}

// What the compiler refuses is told as what must be, and what is.
TEST_F(GrammarLimitsTest, SaysInOurWordsWhatTheCompilerRefuses) {
  const std::pair<const char*, const char*> refused[] = {
      {R"({"if": {"type": "string"}, "then": {"minLength": 2}})",
       R"(keywords must be ones that an answer can be held to, which "/if", )"
       R"("/then" are not)"},
      {R"({"properties": {"a/b": {"items": {"not": {}}}}})",
       R"(keywords must be ones that an answer can be held to, which )"
       R"("/properties/a~1b/items/not" is not)"},
      {R"({"type": "text"})",
       "type must be null, boolean, integer, number, string, array or object, "
       R"(is "text")"},
      {R"({"type": 3})",
       "type must be the name of a type or a list of such names"},
      {R"({"enum": []})", "enum and anyOf must have at least 1 value, have 0"},
      {R"({"anyOf": []})", "enum and anyOf must have at least 1 value, have 0"},
      {R"({"type": "string", "minLength": 3, "maxLength": 2})",
       "a schema must have values that meet it, has none: minLength (3) is "
       "greater than maxLength (2)"},
      {R"({"type": "string", "minLength": "3"})",
       R"(minLength must be a whole number, is "3")"},
      {R"({"type": "number", "minimum": "3"})",
       R"(minimum must be a number, is "3")"},
      {R"({"type": "object", "required": "a"})",
       R"(required must be a list, is "a")"},
      {R"({"type": "object", "properties": {"a": {}}, "minProperties": 1})",
       "minProperties and maxProperties must be absent where a property is "
       "not required"},
      {R"({"items": 3, "type": "array"})",
       "a schema must be an object, true or false"}};
  for (const auto& [source, complaint] : refused) {
    const auto matcher =
        vocabulary_.Compile({GrammarKind::kJsonSchema, source});
    ASSERT_FALSE(matcher.ok()) << source;
    EXPECT_EQ(matcher.error().message, complaint) << source;
  }
}

// What real schemas say is none of this.
TEST_F(GrammarLimitsTest, TakesWhatIsUsual) {
  for (const char* usual :
       {R"({"type": "string", "pattern": "^[a-z]{2,5}-[0-9]+$"})",
        R"({"anyOf": [{"type": "string", "pattern": "^a+$"},
            {"type": "null"}], "default": null, "title": "A"})",
        R"({"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 9})",
        R"({"allOf": [{"type": "object", "properties": {"a": {}}},
            {"required": ["a"]}]})",
        R"({"patternProperties": {"^[a-z]+$": {"type": "integer"}},
            "type": "object", "additionalProperties": false})",
        R"({"type": "string", "format": "date-time"})",
        R"({"properties": {"pattern": {"type": "string"},
            "allOf": {"type": "integer"}}, "type": "object"})",
        R"({"properties": {"pattern": {"type": "string"}},
            "allOf": [{"type": "object"}]})"}) {
    const auto matcher = vocabulary_.Compile({GrammarKind::kJsonSchema, usual});
    EXPECT_TRUE(matcher.ok()) << usual << ": " << matcher.error().message;
  }
}

// A flag's worth each.
TEST_F(GrammarLimitsTest, LimitsAreThoseThatWereGiven) {
  const Grammar grammar = {GrammarKind::kRegex, "[ab]*a[ab]{12}c"};
  const auto goes_well = [&](const GrammarLimits& limits) {
    const GrammarVocabulary vocabulary =
        VocabularyOf(tokenizer_, kPiecesEnd, limits);
    auto matcher = vocabulary.Compile(grammar);
    return matcher.ok() &&
           DrawText(*std::move(matcher), tokenizer_.vocab_size(), kPiecesEnd,
                    5000, random_)
               .has_value();
  };
  EXPECT_TRUE(goes_well({}));
  EXPECT_FALSE(goes_well({.max_bytes = 14}));
  EXPECT_TRUE(goes_well({.max_bytes = 15}));
  EXPECT_FALSE(goes_well({.max_compile_work = 10}));
  EXPECT_FALSE(goes_well({.max_mask_work = 3}));
  EXPECT_FALSE(goes_well({.max_states = 8}));
}

// When it is met, at the beginning or on the way, it is told as what it is.
TEST_F(GrammarLimitsTest, TheLimitOfStatesIsNamed) {
  std::vector<uint32_t> words(
      static_cast<size_t>(tokenizer_.vocab_size()) / 32 + 1);
  const int32_t a = *tokenizer_.IdOf("a");
  int num_on_the_way = 0;
  for (size_t most = 4; most < 256; most *= 2) {
    const GrammarVocabulary vocabulary =
        VocabularyOf(tokenizer_, kPiecesEnd, {.max_states = most});
    auto matcher = vocabulary.Compile({GrammarKind::kRegex, "[ab]*a[ab]{12}c"});
    Status status = Ok{};
    if (!matcher.ok()) status = matcher.error();
    for (int i = 0; i < 2000 && status.ok(); ++i) {
      status = matcher->Mask(words);
      const bool allowed = (words[static_cast<size_t>(a) / 32] >> (a % 32)) & 1;
      if (status.ok() && !allowed) break;
      if (status.ok()) status = matcher->Accept(a);
    }
    if (status.ok()) continue;
    EXPECT_EQ(status.error().message,
              fmt::format("states must be at most {}, are more", most));
    num_on_the_way += matcher.ok() ? 1 : 0;
  }
  EXPECT_GT(num_on_the_way, 0);
}

}  // namespace
}  // namespace winnow
