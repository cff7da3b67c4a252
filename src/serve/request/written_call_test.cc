#include "serve/request/written_call.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

std::string ObjectFor(std::string_view text) {
  return ArgumentsObject(text, JsonLimits());
}

TEST(WrittenCallTest, AnObjectIsTakenAsItIsWritten) {
  EXPECT_EQ(ObjectFor(R"({"z": 1.0,"a":{"b":[2]}})"),
            R"({"z": 1.0,"a":{"b":[2]}})");
  EXPECT_EQ(ObjectFor(" \n{\"a\":1}\t"), R"({"a":1})");
  EXPECT_EQ(ObjectFor("\xEF\xBB\xBF{\"a\":1}"), R"({"a":1})");
  // Made a JSON string once too often.
  EXPECT_EQ(ObjectFor(json(R"({"z":1,"a":2})").dump()), R"({"z":1,"a":2})");
  // json.loads('{"b": 1, "b": 2, "a": 3}') == {"b": 2, "a": 3}
  EXPECT_EQ(ObjectFor(R"({"b": 1, "b": 2, "a": 3})"), R"({"b":2,"a":3})");
  // Python keeps the first one's place.
  EXPECT_EQ(ObjectFor(R"({"b":1,"a":2,"b":3})"), R"({"b":3,"a":2})");
  EXPECT_EQ(ObjectFor(R"({"z":[{"y":1,"x":1.0,"\u0079":{"b":1,"a":2}}]})"),
            R"({"z":[{"y":{"b":1,"a":2},"x":1.0}]})");
}

TEST(WrittenCallTest, NothingIsNoArguments) {
  for (const char* text : {"", " ", "\n\t", "null", " null ", "\"\"", "{}"}) {
    EXPECT_EQ(ObjectFor(text), "{}") << text;
  }
}

// Whatever else a model once wrote is told as text, to the last byte.
TEST(WrittenCallTest, AnyOtherTextIsTheMemberOfAnObject) {
  const std::string deep(40, '[');
  for (const std::string& text :
       {std::string(R"({"path": "a.txt", "text": "He s)"),
        std::string(R"({"t": "say "hi""})"), std::string("[1, 2]"),
        std::string("5"), std::string("true"), std::string("\"Oslo\""),
        std::string("<parameter=city>Oslo"), std::string("{\"a\": NaN}"),
        std::string("{\"a\": 1e999}"), std::string("{\"a\":1} {\"b\":2}"),
        std::string("{\"a\":\"line\nbreak\"}"), "{\"a\":" + deep,
        "{\"a\":" + deep + std::string(40, ']') + "}"}) {
    EXPECT_EQ(json::parse(ObjectFor(text)), json({{"INVALID_JSON", text}}));
  }
}

TEST(WrittenCallTest, ACallIsAsTemplatesReadIt) {
  EXPECT_EQ(CallJson({.id = "c\"1", .name = "get", .arguments = "{\"a\":1}"},
                     JsonLimits()),
            R"({"id":"c\"1","type":"function","function":)"
            R"({"name":"get","arguments":{"a":1}}})");
  EXPECT_EQ(InputObject("*** Begin \"x\""), R"({"input":"*** Begin \"x\""})");
  EXPECT_EQ(ArgumentsText(json("{"), "\"{\""), "{");
  EXPECT_EQ(ArgumentsText(json(), "null"), "");
  EXPECT_EQ(ArgumentsText(json({{"a", 1}}), R"({"a": 1.0})"), R"({"a": 1.0})");
}

}  // namespace
}  // namespace winnow
