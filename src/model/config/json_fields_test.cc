#include "model/config/json_fields.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

JsonFields Parsed(std::string_view text) {
  return JsonFields::Parse(text, "config.json", {}).value();
}

std::string ParseFailure(std::string_view text, JsonLimits limits = {}) {
  const Result<JsonFields> parsed =
      JsonFields::Parse(text, "config.json", limits);
  return parsed.ok() ? "no failure" : parsed.error().message;
}

template <typename T>
std::string Failure(const Result<T>& result) {
  return result.ok() ? "no failure" : result.error().message;
}

TEST(JsonFieldsTest, AnIntegerMayHaveAPoint) {
  const JsonFields fields = Parsed(
      R"({"i": -3.0, "many": [1, 2.0, 3e1], "half": 0.5, "more": 10.0,
          "vast": 1e17})");
  EXPECT_EQ(*fields.Integer("i", {-5, 5}), -3);
  EXPECT_EQ(*fields.Integers("many", {0, 30}),
            (std::vector<int64_t>{1, 2, 30}));
  EXPECT_FALSE(fields.Integer("half", {0, 9}).ok());
  EXPECT_FALSE(fields.Integer("more", {0, 9}).ok());
  EXPECT_FALSE(fields.Integer("vast", {0, INT64_MAX}).ok());
}

TEST(JsonFieldsTest, ReadsEveryKind) {
  const JsonFields fields = Parsed(
      R"({"i": -3, "n": 1.5, "t": "x", "b": true, "one": 4, "many": [1, 2],
          "ns": [1, 2.5], "ts": ["a", "b"], "o": {"i": 7}, "nothing": null})");
  EXPECT_EQ(*fields.Integer("i", {-5, 5}), -3);
  EXPECT_EQ(*fields.Number("n", {0, 2}), 1.5);
  EXPECT_EQ(*fields.Number("i", {-5, 5}), -3.0);
  EXPECT_EQ(*fields.Text("t"), "x");
  EXPECT_TRUE(*fields.Flag("b"));
  EXPECT_EQ(*fields.Integers("one", {0, 9}), std::vector<int64_t>{4});
  EXPECT_EQ(*fields.Integers("many", {0, 9}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*fields.Numbers("ns", {0, 9}, 2), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(*fields.Texts("ts"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*fields.Object("o")->Integer("i", {0, 9}), 7);
  EXPECT_FALSE(fields.Has("nothing"));
  EXPECT_TRUE(fields.IsNull("nothing"));
  EXPECT_FALSE(fields.IsNull("absent"));
}

TEST(JsonFieldsTest, AbsentAndNullTakeTheDefault) {
  const JsonFields fields = Parsed(R"({"x": null})");
  for (const char* name : {"x", "y"}) {
    EXPECT_EQ(*fields.Integer(name, {0, 9}, 5), 5);
    EXPECT_EQ(*fields.Number(name, {0, 9}, 0.5), 0.5);
    EXPECT_EQ(*fields.Flag(name, true), true);
    EXPECT_EQ(*fields.Text(name, "t"), "t");
    EXPECT_TRUE(fields.Integers(name, {0, 9})->empty());
    EXPECT_TRUE(fields.Texts(name)->empty());
  }
}

TEST(JsonFieldsTest, FailuresNameFileFieldLimitAndValue) {
  const JsonFields fields = Parsed(
      R"({"h": "x", "big": 18446744073709551615, "f": 2.5, "o": {"n": -1},
          "list": [1, "a"], "short": [1.0]})");
  EXPECT_EQ(Failure(fields.Integer("h", {1, 1048576})),
            "config.json: field h: must be an integer in [1, 1048576], is "
            "\"x\"");
  EXPECT_EQ(Failure(fields.Integer("big", {1, INT64_MAX})),
            "config.json: field big: must be an integer in [1, "
            "9223372036854775807], is 18446744073709551615");
  EXPECT_EQ(Failure(fields.Integer("f", {1, 9})),
            "config.json: field f: must be an integer in [1, 9], is 2.5");
  EXPECT_EQ(Failure(fields.Integer("none", {1, 9})),
            "config.json: field none: must be an integer in [1, 9], is "
            "missing");
  EXPECT_EQ(Failure(fields.Object("o")->Number("n", {0, 1})),
            "config.json: field o.n: must be a number in [0, 1], is -1");
  EXPECT_EQ(Failure(fields.Flag("h")),
            "config.json: field h: must be true or false, is \"x\"");
  EXPECT_EQ(Failure(fields.Text("f")),
            "config.json: field f: must be a string, is 2.5");
  EXPECT_EQ(Failure(fields.Object("h")),
            "config.json: field h: must be an object, is \"x\"");
  EXPECT_EQ(Failure(fields.Texts("list")),
            "config.json: field list[0]: must be a string, is 1");
  EXPECT_EQ(Failure(fields.Texts("f")),
            "config.json: field f: must be a list of strings, is 2.5");
  EXPECT_EQ(Failure(fields.Integers("list", {0, 9})),
            "config.json: field list[1]: must be an integer in [0, 9], is "
            "\"a\"");
  EXPECT_EQ(Failure(fields.Integers("f", {0, 9})),
            "config.json: field f: must be an integer in [0, 9], or a list of "
            "such integers, is 2.5");
  EXPECT_EQ(Failure(fields.Numbers("short", {0, 9}, 2)),
            "config.json: field short: must be a list of 2 numbers in [0, 9], "
            "is [1.0]");
}

// A message stays one short line whatever the file holds.
TEST(JsonFieldsTest, LongOrControlValuesAreShownShort) {
  const JsonFields fields =
      Parsed("{\"x\": \"a\\nb\\u001b[31m" + std::string(500, 'y') + "\"}");
  const std::string message = Failure(fields.Integer("x", {0, 1}));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 200u);
}

TEST(JsonFieldsTest, PrintableNamesAreOneShortLine) {
  EXPECT_EQ(Printable("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(Printable("a\nb\x1b"), "a\\nb\\u001b");
  EXPECT_EQ(Printable(std::string(100, 'x')), std::string(79, 'x') + "...");
  EXPECT_EQ(Printable(""), "");
}

TEST(JsonFieldsTest, RefusesWhatIsNotOneSoundObject) {
  EXPECT_EQ(ParseFailure("{\"a\": }"), "config.json: not valid JSON at byte 7");
  EXPECT_EQ(ParseFailure(""), "config.json: not valid JSON at byte 1");
  EXPECT_EQ(ParseFailure("{} x"), "config.json: not valid JSON at byte 4");
  EXPECT_EQ(ParseFailure(std::string("{}\0 x", 5)),
            "config.json: JSON must have no NUL, has one at byte 2");
  EXPECT_EQ(ParseFailure("[1]"), "config.json: must be a JSON object, is [1]");
  EXPECT_EQ(ParseFailure("{\"a\": 1e999}"),
            "config.json: field a: must be a number that a double has room "
            "for, is 1e999");
  EXPECT_EQ(ParseFailure(R"({"o": {"b": 1, "l": [{"c": 2}, 1]}, "p": {"l":
      [0, {"c": 1, "d": [2, -1e400]}]}})"),
            "config.json: field p.l.d: must be a number that a double has room "
            "for, is -1e400");
  EXPECT_EQ(ParseFailure("{\"a\": \"\xff\"}"),
            "config.json: not valid JSON at byte 8");
  EXPECT_EQ(ParseFailure(R"({"o": {"a": 1, "b": 2, "a": 3}})"),
            "config.json: the name a occurs twice in one object");
  EXPECT_EQ(ParseFailure(R"({"a": 1})", {.max_bytes = 7, .max_depth = 4}),
            "config.json: JSON must be at most 7 bytes, is 8");
}

TEST(JsonFieldsTest, DepthIsLimited) {
  EXPECT_EQ(ParseFailure(R"({"a": [[1]]})", {.max_bytes = 99, .max_depth = 3}),
            "no failure");
  EXPECT_EQ(
      ParseFailure(R"({"a": [[[1]]]})", {.max_bytes = 99, .max_depth = 3}),
      "config.json: nested deeper than 3 levels");
  // A million levels end at the limit, not on the stack.
  EXPECT_EQ(ParseFailure("{\"a\":" + std::string(1000000, '[')),
            "config.json: nested deeper than 16 levels");
}

}  // namespace
}  // namespace winnow
