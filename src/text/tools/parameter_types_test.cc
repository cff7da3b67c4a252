#include "text/tools/parameter_types.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

namespace winnow {
namespace {

// Each parameter has the type of its name.
constexpr const char* kTypesSchema = R"({
  "type": "object",
  "$defs": {"Unit": {"enum": ["c", "f"], "type": "string"},
            "Count": {"type": "integer"},
            "Round": {"$ref": "#/$defs/Round"}},
  "properties": {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "array": {"type": "array", "items": {"type": "integer"}},
    "object": {"type": "object"},
    "null": {"type": "null"},
    "optional": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "either": {"type": ["integer", "string"]},
    "numbers": {"enum": [1, 2.5, null]},
    "constant": {"const": true},
    "unit": {"$ref": "#/$defs/Unit"},
    "count": {"allOf": [{"$ref": "#/$defs/Count"}]},
    "round": {"$ref": "#/$defs/Round"},
    "nowhere": {"$ref": "#/$defs/Nowhere"},
    "outside": {"$ref": "other.json"},
    "untyped": {"description": "?"},
    "anything": true,
    "members": {"properties": {"a": {}}},
    "items": {"items": {}},
    "python": {"type": "int"}
  }
})";

struct TypeCase {
  const char* parameter;
  std::string text;
  std::string json;
};

const std::vector<TypeCase> kTypeCases = {
    {"string", "5", R"("5")"},
    {"string", "null", R"("null")"},
    {"string", " a\n\"b\" ", R"(" a\n\"b\" ")"},
    {"integer", "5", "5"},
    {"integer", " -5\n", "-5"},
    {"integer", "5.0", "5.0"},
    {"integer", "5.5", R"("5.5")"},
    {"integer", "\"5\"", "5"},
    {"integer", "five", R"("five")"},
    {"integer", "[5]", R"("[5]")"},
    {"integer", "None", "null"},
    {"number", "5", "5"},
    {"number", "2.5e3", "2.5e3"},
    {"number", "1e999", R"("1e999")"},
    {"boolean", "true", "true"},
    {"boolean", "False", "false"},
    {"boolean", "TRUE", "true"},
    {"boolean", "yes", R"("yes")"},
    {"boolean", "1", R"("1")"},
    {"array", "[1, 2]", "[1,2]"},
    {"array", "['a', None]", R"(["a",null])"},
    {"array", R"("[1, 'b']")", R"([1,"b"])"},
    {"array", "1, 2", R"("1, 2")"},
    {"object", R"({"a": {"b": [1]}})", R"({"a":{"b":[1]}})"},
    {"object", "{'a': True}", R"({"a":true})"},
    {"object", R"("{'a': 1}")", R"({"a":1})"},
    {"object", "[1]", R"("[1]")"},
    {"null", "null", "null"},
    {"null", "NONE", "null"},
    {"optional", "null", "null"},
    {"optional", "None", "null"},
    {"optional", "5", R"("5")"},
    {"optional", "'a'", R"("'a'")"},
    {"either", "5", "5"},
    {"either", "5.5", R"("5.5")"},
    {"either", "\"5\"", "5"},
    {"either", "none", R"("none")"},
    {"numbers", "2.5", "2.5"},
    {"numbers", "null", "null"},
    {"constant", "True", "true"},
    {"unit", "c", R"("c")"},
    {"count", "7", "7"},
    {"round", "7", R"("7")"},
    {"nowhere", "7", R"("7")"},
    {"outside", "7", R"("7")"},
    {"untyped", "7", R"("7")"},
    {"anything", "7", R"("7")"},
    {"members", "{}", "{}"},
    {"items", "[]", "[]"},
    {"python", "7", "7"},
    {"unknown", "7", R"("7")"},
    {"array", std::string(1000, '['), "\"" + std::string(1000, '[') + "\""},
};

TEST(ParameterTypesTest, TextsAreReadByTheirTypes) {
  const std::vector<CallableTool> tools = {{"f", kTypesSchema}};
  const ParameterTypes types(tools);
  for (const TypeCase& each : kTypeCases) {
    EXPECT_EQ(types.JsonOf("f", each.parameter, each.text), each.json)
        << each.parameter << " " << each.text;
  }
  EXPECT_EQ(types.JsonOf("g", "integer", "5"), R"("5")");
  EXPECT_TRUE(types.HasTool("f"));
  EXPECT_FALSE(types.HasTool("g"));
  EXPECT_TRUE(types.MayBeString("f", "optional"));
  EXPECT_TRUE(types.MayBeString("f", "unknown"));
  EXPECT_FALSE(types.MayBeString("f", "count"));
}

TEST(ParameterTypesTest, WhateverASchemaIs) {
  // References that double at every step, and what is no schema.
  std::string definitions;
  for (int i = 0; i < 40; ++i) {
    definitions += fmt::format(
        R"("d{}": {{"anyOf": [{{"$ref": "#/$defs/d{}"}},
                              {{"$ref": "#/$defs/d{}"}}]}},)",
        i, i + 1, i + 1);
  }
  const std::string doubling = R"({"$defs": {)" + definitions +
                               R"("d40": {"type": "integer"}},
      "properties": {"a": {"$ref": "#/$defs/d0"}}})";
  for (const std::string& schema :
       {doubling, std::string(), std::string("[]"), std::string("true"),
        std::string(R"({"properties": []})"),
        std::string(R"({"properties": {"a": {"type": 5}}})"),
        std::string(R"({"properties": {"a": {"$ref": 5}}})"),
        std::string(R"({"properties": {"a": {"$ref": "#/properties/a/b"}}})"),
        std::string(R"({"properties": {"a": {"anyOf": {}}}})"),
        std::string(R"({"properties": {"a": {"enum": 1}}})")}) {
    const std::vector<CallableTool> tools = {{"f", schema}};
    EXPECT_EQ(ParameterTypes(tools).JsonOf("f", "a", "x"), R"("x")") << schema;
  }
}

}  // namespace
}  // namespace winnow
