#include "text/grammar/held_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;
using Places = std::vector<std::string>;

// What the property "v" of a schema is held to, its reference followed.
Json Target(const std::string& schema) {
  const auto held = HoldSchema(schema, UnheldKeywords::kRefused);
  if (!held.ok()) return held.error().message;
  const Json root = Json::parse(held->json);
  const Json at = root["properties"]["v"];
  if (!at.contains("$ref")) return at;
  const auto reference = at["$ref"].get<std::string>();
  if (reference == "#") return "root";
  constexpr std::string_view kBegin = "#/$defs/";
  EXPECT_TRUE(reference.starts_with(kBegin)) << reference;
  return root["$defs"][reference.substr(kBegin.size())];
}

std::string WithReference(const std::string& reference,
                          const std::string& more) {
  return R"({"type": "object", "properties": {"v": {"$ref": )" +
         Json(reference).dump() + "}}, " + more + "}";
}

// RFC 6901, section 5 and 6: its own document and pointers, with values that
// are schemas in place of its numbers.
TEST(HeldSchemaTest, FollowsThePointersOfRfc6901) {
  const std::pair<const char*, int> fragments[] = {
      {"#/foo/0", 0}, {"#/", 1},      {"#/a~1b", 2},   {"#/c%25d", 3},
      {"#/e%5Ef", 4}, {"#/g%7Ch", 5}, {"#/i%5Cj", 6},  {"#/k%22l", 7},
      {"#/%20", 8},   {"#/m~0n", 9},  {"#/a%7E1b", 2}, {"#/~01", 10},
      {"#/g|h", 5}};
  const std::string document = R"("foo": [{"const": 0}, {"const": -1}],
      "": {"const": 1}, "a/b": {"const": 2}, "c%d": {"const": 3},
      "e^f": {"const": 4}, "g|h": {"const": 5}, "i\\j": {"const": 6},
      "k\"l": {"const": 7}, " ": {"const": 8}, "m~n": {"const": 9}, "~1": {"const": 10})";
  for (const auto& [fragment, value] : fragments) {
    EXPECT_EQ(Target(WithReference(fragment, document)),
              (Json{{"const", value}}))
        << fragment;
  }
  EXPECT_EQ(Target(WithReference("#", document)), "root");
  EXPECT_EQ(Target(WithReference("", document)), "root");
}

// Each as the package jsonschema 4.26 resolves it.
TEST(HeldSchemaTest, FollowsIdsAndAnchors) {
  const std::string document = R"("$id": "https://example.com/a/root.json",
      "$defs": {
        "plain": {"$anchor": "here", "const": 1},
        "other": {"$id": "b/other.json", "$defs": {"x": {"const": 2},
                  "back": {"$ref": "../root.json#here"}},
                  "$anchor": "here", "const": 3},
        "name": {"$id": "urn:x:name", "const": 4},
        "n\u00e4 <T>": {"$dynamicAnchor": "node", "const": 5},
        "deep": {"$defs": {"er": {"const": 6}}}})";
  const std::pair<const char*, int> references[] = {
      {"#here", 1},
      {"root.json#here", 1},
      {"https://example.com/a/root.json#/$defs/plain", 1},
      {"/a/root.json#/$defs/plain", 1},
      {"b/other.json#/$defs/x", 2},
      {"./c/../b/other.json#here", 3},
      {"HTTPS://EXAMPLE.com/a/b/other.json", 3},
      {"urn:x:name", 4},
      {"#node", 5},
      {"#/$defs/n%C3%A4%20%3CT%3E", 5},
      {"#/$defs/deep/$defs/er", 6}};
  for (const auto& [reference, value] : references) {
    const Json target = Target(WithReference(reference, document));
    EXPECT_EQ(target.is_object() ? target["const"] : target, value)
        << reference;
  }
  const Json back = Target(WithReference("b/other.json#/$defs/back", document));
  ASSERT_TRUE(back.is_object()) << back;
  EXPECT_TRUE(back.contains("$ref")) << back;
}

TEST(HeldSchemaTest, OlderDraftsNameOtherwise) {
  EXPECT_EQ(
      Target(WithReference(
          "#here", R"("$schema": "http://json-schema.org/draft-07/schema#",
                 "definitions": {"a": {"$id": "#here", "const": 1}})")),
      (Json{{"const", 1}}));
  EXPECT_EQ(
      Target(WithReference(
          "a.json", R"("$schema": "http://json-schema.org/draft-04/schema#",
                 "definitions": {"a": {"id": "a.json", "type": "null"}})")),
      (Json{{"type", "null"}}));
}

TEST(HeldSchemaTest, NamesAReferenceThatLeadsElsewhereOrNowhere) {
  for (const char* reference :
       {"http://127.0.0.1/a.json", "a.json#/b", "//h/a", "urn:a:b", "?q"}) {
    const Json told = Target(WithReference(reference, R"("$defs": {})"));
    ASSERT_TRUE(told.is_string()) << told;
    EXPECT_EQ(told,
              "$ref must point into its own schema, as no other is read, "
              "is " +
                  Json(reference).dump());
  }
  for (const char* reference : {"#/$defs/none", "#none", "#/foo/2", "#/foo/00",
                                "#/foo/-", "#/foo/+0", "#/foo/0/x", "#/"}) {
    const Json told =
        Target(WithReference(reference, R"("foo": [{}, {"x/y": {}}])"));
    ASSERT_TRUE(told.is_string()) << reference << told;
    EXPECT_EQ(told, "$ref must point to something that its schema has, is " +
                        Json(reference).dump());
  }
}

// What stands in a value is none of a schema's references.
TEST(HeldSchemaTest, ReferencesInValuesAreValues) {
  for (const char* schema : {R"({"const": {"$ref": "x.json"}})",
                             R"({"enum": [{"$ref": "x.json"}]})"}) {
    const auto held = HoldSchema(schema, UnheldKeywords::kRefused);
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_EQ(Json::parse(held->json), Json::parse(schema));
  }
  EXPECT_TRUE(Target(WithReference("x.json", R"("const": {"$id": "x.json"})"))
                  .is_string());
  const auto held = HoldSchema(
      R"({"properties": {"$ref": {"type": "string"}, "not": {}, "if": {}},
          "default": {"$ref": "x"}, "examples": [1e300], "x-any": {"not": {}},
          "title": "t", "$comment": "c", "deprecated": true})",
      UnheldKeywords::kRefused);
  ASSERT_TRUE(held.ok()) << held.error().message;
  EXPECT_EQ(Json::parse(held->json),
            Json::parse(R"({"properties": {"$ref": {"type": "string"},
                                           "not": {}, "if": {}}})"));
}

// Definitions that stand within one another may not grow without bound.
TEST(HeldSchemaTest, WhatReferencesPointToIsBounded) {
  std::string schema = R"({"const": ")" + std::string(2000, 'x') + "\"}";
  std::string references;
  std::string place = "#";
  for (int i = 0; i < 60; ++i) {
    schema = R"({"items": )" + schema + "}";
    place += "/items";
    references += (i > 0 ? "," : "") + Json{{"$ref", place}}.dump();
  }
  schema.insert(1, "\"anyOf\": [" + references + "], ");
  const auto held = HoldSchema(schema, UnheldKeywords::kRefused);
  ASSERT_FALSE(held.ok());
  EXPECT_EQ(held.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(held.error().message.starts_with("what $ref points to must be"));
}

TEST(HeldSchemaTest, AFormatThatNobodyKnowsAsksNothing) {
  const char* const schema =
      R"({"properties": {"a": {"type": "string", "format": "ipv9"},
                         "b": {"type": "string", "format": "uuid"}}})";
  for (const auto rest : {UnheldKeywords::kRefused, UnheldKeywords::kLeftOut,
                          UnheldKeywords::kFitted}) {
    const auto held = HoldSchema(schema, rest);
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_EQ(held->unheld, Places{"properties.a.format"});
    EXPECT_EQ(Json::parse(held->json),
              Json::parse(R"({"properties": {"a": {"type": "string"},
                              "b": {"type": "string", "format": "uuid"}}})"));
  }
}

TEST(HeldSchemaTest, KeywordsThatAskNothingAreNone) {
  for (const char* schema :
       {R"({"if": {"type": "null"}})", R"({"then": false})",
        R"({"uniqueItems": false})", R"({"not": false})",
        R"({"dependentRequired": {}})", R"({"minContains": 2})",
        R"({"propertyNames": {"type": "string"}})",
        R"({"unevaluatedProperties": true})",
        R"({"$schema": "http://json-schema.org/draft-07/schema#",
            "dependentRequired": {"a": ["b"]}})"}) {
    const auto held = HoldSchema(schema, UnheldKeywords::kRefused);
    EXPECT_TRUE(held.ok()) << schema << held.error().message;
  }
  for (const char* schema :
       {R"({"uniqueItems": true})", R"({"not": {}})", R"({"contains": {}})",
        R"({"dependentRequired": {"a": ["b"]}})",
        R"({"if": {}, "then": {"minLength": 1}})",
        R"({"propertyNames": {"minLength": 1}})",
        R"({"unevaluatedProperties": false, "anyOf": [{}]})"}) {
    EXPECT_FALSE(HoldSchema(schema, UnheldKeywords::kRefused).ok()) << schema;
    const auto held = HoldSchema(schema, UnheldKeywords::kLeftOut);
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_FALSE(held->unheld.empty()) << schema;
  }
}

// The same in other keywords.
TEST(HeldSchemaTest, WhatCanBeSaidOtherwiseIs) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties": {"a": {}}, "unevaluatedProperties": false})",
       R"({"properties": {"a": {}}, "additionalProperties": false})"},
      {R"({"propertyNames": {"enum": ["a", "b"]},
           "additionalProperties": {"type": "null"}})",
       R"({"additionalProperties": false,
           "properties": {"a": {"type": "null"}, "b": {"type": "null"}}})"},
      {R"({"propertyNames": {"type": "string", "pattern": "^a"}})",
       R"({"patternProperties": {"^a": true}, "additionalProperties": false})"},
      {R"({"$ref": "#/$defs/a", "$recursiveRef": "#/$defs/b",
           "$defs": {"a": {"minimum": 1}, "b": {"maximum": 2}}})",
       R"({"$ref": "#/$defs/0", "allOf": [{"$ref": "#/$defs/1"}],
           "$defs": {"0": {"minimum": 1}, "1": {"maximum": 2}}})"}};
  for (const auto& [schema, expected] : cases) {
    const auto held = HoldSchema(schema, UnheldKeywords::kRefused);
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_EQ(nlohmann::json::parse(held->json),
              nlohmann::json::parse(expected))
        << schema;
  }
}

// Bounds beyond what grammars have are left out of what is only held so far.
TEST(HeldSchemaTest, ExcessIsLeftOutWhereThatMayBe) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"maximum": 1e19, "minimum": 0})", R"({"minimum": 0})"},
      {R"({"exclusiveMinimum": 0, "maximum": 0.5})",
       R"({"maximum": 0.5, "minimum": 0})"},
      {R"({"multipleOf": 10.01})", "{}"},
      {R"({"maxLength": 1000000000000})", "{}"},
      {R"({"patternProperties": {"a": {}, "b": {}}, "required": ["ab"],
           "additionalProperties": false})",
       R"({"required": ["ab"]})"},
      {R"({"patternProperties": {"a": {}}, "properties": {"c": {}},
           "additionalProperties": false, "required": ["c"]})",
       R"({"properties": {"c": {}}, "additionalProperties": false,
           "required": ["c"]})"}};
  for (const auto& [schema, expected] : cases) {
    const auto held = HoldSchema(schema, UnheldKeywords::kLeftOut);
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_EQ(nlohmann::json::parse(held->json),
              nlohmann::json::parse(expected))
        << schema;
    EXPECT_FALSE(held->unheld.empty()) << schema;
  }
}

}  // namespace
}  // namespace winnow
