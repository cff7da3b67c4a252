#include "text/tools/literal_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace winnow {
namespace {

std::string Read(std::string_view text) {
  const std::optional<Literal> literal = LiteralOf(text);
  return literal ? literal->json : "none";
}

TEST(LiteralReaderTest, WritesJson) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"None", "null"},
      {" null\n", "null"},
      {"True", "true"},
      {"false", "false"},
      {"0", "0"},
      {"-17", "-17"},
      {"+17", "17"},
      {"000", "0"},
      {"1_000_000", "1000000"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"0xfF", "255"},
      {"-0b101", "-5"},
      {"0o17", "15"},
      {"1.", "1.0"},
      {".5", "0.5"},
      {"01.50", "1.50"},
      {"-2.5E-3", "-2.5e-3"},
      {"1e5", "1e5"},
      {"\"a\"", "\"a\""},
      {"'it\"s'", R"("it\"s")"},
      {R"('it\'s')", R"("it's")"},
      {R"("\n\t\\\"\/")", R"("\n\t\\\"/")"},
      {R"('\/\d')", R"("\\/\\d")"},
      {R"("\x41\u00e9\U0001F600\101")", "\"A\u00e9\U0001F600A\""},
      {R"("\ud83d\ude00")", "\"\U0001F600\""},
      {R"("\ud83d!")", "\"\uFFFD!\""},
      {R"(r"\d\"")", R"("\\d\\\"")"},
      {"u'\xc3\xa9'", "\"\u00e9\""},
      {"'''a\n'b' \"c\"'''", R"("a\n'b' \"c\"")"},
      {"\"\"\"\"\"\"", "\"\""},
      {"''", "\"\""},
      {"'a' \"b\"\n'c'", "\"abc\""},
      {"'a\\\nb'", "\"ab\""},
      {"[1, 'a', [None,],]", R"([1,"a",[null]])"},
      {"[]", "[]"},
      {"()", "[]"},
      {"(1,)", "[1]"},
      {"(1)", "1"},
      {"((1, 2))", "[1,2]"},
      {"{1, 2,}", "[1,2]"},
      {"{}", "{}"},
      {"{'a': 1, \"b\": {'c': (True,)},}", R"({"a":1,"b":{"c":[true]}})"},
      {"{1: 2, None: 3, True: 4, 1.5: 5}",
       R"({"1":2,"null":3,"true":4,"1.5":5})"},
      {R"({"a": [true, null, 1.5e3]})", R"({"a":[true,null,1.5e3]})"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Read(text), expected) << text;
    EXPECT_TRUE(nlohmann::json::accept(Read(text))) << text;
  }
}

TEST(LiteralReaderTest, WhatIsNoneIsNone) {
  for (const char* text : {"",
                           " ",
                           "a",
                           "nan",
                           "inf",
                           "1 2",
                           "007",
                           "-",
                           "--1",
                           ".",
                           "1.2.3",
                           "1e",
                           "1e999",
                           "1_",
                           "_1",
                           "5j",
                           "0x",
                           "0xg",
                           "0x1.0",
                           "1 + 1",
                           "-'a'",
                           "0xffffffffffffffff0",
                           "'a",
                           "'a\nb'",
                           "'a\"",
                           "'''a''",
                           "b'a'",
                           "f'{a}'",
                           "rb'a'",
                           R"('\x4')",
                           R"('\u12')",
                           R"('\N{DASH}')",
                           R"('\U00110000')",
                           R"(r'\')",
                           "[",
                           "[1",
                           "[1,",
                           "[,]",
                           "[1 2]",
                           "(,)",
                           "[1}",
                           "{1:}",
                           "{1: 2",
                           "{1: 2, 3}",
                           "{1, 2: 3}",
                           "{[1]: 2}",
                           "{,}",
                           "{'a': f(1)}",
                           "f()",
                           "'a'.b",
                           "[x for x in y]",
                           "None None"}) {
    EXPECT_EQ(Read(text), "none") << text;
  }
}

TEST(LiteralReaderTest, NestingHasABound) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(Read(nested(60)), nested(60));
  EXPECT_EQ(Read(nested(100)), "none");
  EXPECT_EQ(Read(std::string(1'000'000, '(')), "none");
  EXPECT_EQ(Read(std::string(1'000'000, '{')), "none");
}

TEST(LiteralReaderTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Read("'\xff'"), "\"\uFFFD\"");
  EXPECT_EQ(QuotedJson("a\xc3"), "\"a\uFFFD\"");
}

// Twice as much takes twice as long; a square would not end.
TEST(LiteralReaderTest, ALongOneIsReadInOneGo) {
  std::string list = "[";
  for (int i = 0; i < 200'000; ++i) list += "{'a': 'b'},";
  EXPECT_EQ(Read(list + "]").size(), 1 + 200'000 * 10u);
  EXPECT_EQ(Read("'" + std::string(5'000'000, 'x') + "'").size(), 5'000'002u);
}

}  // namespace
}  // namespace winnow
