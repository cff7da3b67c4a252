#include "text/grammar/json_slices.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace winnow {
namespace {

using nlohmann::json;

TEST(JsonSlicesTest, KeepsOrderAndSpelling) {
  const std::string_view text =
      "\n{ \"b\" : 1.0 , \"a\":[ 1e2,\"],\\\"\\\\\" , {\"z\":{}} ],"
      "\"\\u0061b\":null}";
  const std::vector<JsonMember> expected = {
      {"b", "1.0"},
      {"a", "[ 1e2,\"],\\\"\\\\\" , {\"z\":{}} ]"},
      {"\\u0061b", "null"}};
  EXPECT_EQ(MembersOf(text), expected);
  EXPECT_EQ(
      ElementsOf(MemberOf(text, "a")),
      (std::vector<std::string_view>{"1e2", "\"],\\\"\\\\\"", "{\"z\":{}}"}));
  EXPECT_EQ(MemberOf(text, "c"), "null");
  EXPECT_TRUE(MembersOf(" { } ").empty());
  EXPECT_TRUE(ElementsOf("[\n]").empty());
}

// What no parser lets through ends too, and a mark before the text is none of
// it.
TEST(JsonSlicesTest, EndsWhateverTheText) {
  EXPECT_EQ(MemberOf("\xEF\xBB\xBF{\"a\":1}", "a"), "1");
  for (const char* text : {"", "{", "[", "{\"a", "{\"a\"", "{\"a\":", "{1:2}",
                           "[1", "[\"\\", "{\"a\":[", "x", "[1 2]"}) {
    EXPECT_LE(MembersOf(text).size() + ElementsOf(text).size(), 1u) << text;
  }
}

json RandomValue(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 6 : 4)) {
    case 0:
      return random() % 1000;
    case 1:
      return std::string(random() % 4, "\"\\{}[],: a"[random() % 10]);
    case 2:
      return nullptr;
    case 3:
      return true;
    case 4: {
      json array = json::array();
      for (uint32_t i = random() % 4; i > 0; --i) {
        array.push_back(RandomValue(random, depth - 1));
      }
      return array;
    }
    default: {
      json object = json::object();
      for (uint32_t i = random() % 4; i > 0; --i) {
        object["k" + std::to_string(i)] = RandomValue(random, depth - 1);
      }
      return object;
    }
  }
}

TEST(JsonSlicesTest, KnowsANameHoweverItIsWritten) {
  EXPECT_EQ(
      MemberOf(R"({"guided\u005fjson": {"b": 1, "a": 2}})", "guided_json"),
      R"({"b": 1, "a": 2})");
  EXPECT_EQ(MemberOf(R"({"\u0061": 1, "b\n": 2, "\ud83d\ude00": 3})", "a"),
            "1");
  EXPECT_EQ(MemberOf(R"({"b\n": 2, "\"": 3})", "b\n"), "2");
  EXPECT_EQ(MemberOf(R"({"b\n": 2, "\"": 3})", "\""), "3");
  EXPECT_EQ(MemberOf(R"({"\ud83d\ude00": 3})", "\xF0\x9F\x98\x80"), "3");
  EXPECT_EQ(MemberOf(R"({"\\u0061": 1})", "a"), "null");
}

// Taken apart by slices and put together again, a document is what it was.
json Rebuilt(std::string_view text) {
  const char first = text[text.find_first_not_of(" \n")];
  if (first == '{') {
    json object = json::object();
    for (const auto& [name, value] : MembersOf(text)) {
      object[std::string(name)] = Rebuilt(value);
    }
    return object;
  }
  if (first == '[') {
    json array = json::array();
    for (const std::string_view each : ElementsOf(text)) {
      array.push_back(Rebuilt(each));
    }
    return array;
  }
  return json::parse(text);
}

TEST(JsonSlicesTest, LosesNothing) {
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    const json document = RandomValue(random, 5);
    for (const int indent : {-1, 2}) {
      const std::string text = document.dump(indent);
      EXPECT_EQ(Rebuilt(text), document) << text;
    }
  }
}

}  // namespace
}  // namespace winnow
