#include "serve/api/openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "serve/request/api_error.h"
#include "serve/request/request_case.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;
using Use = RequestField::Use;

// Of the routes that openapi.json has: it says itself which they are.
Json Document() {
  const Json source = Json::parse(kOpenApiTemplate);
  std::vector<OpenApiOperation> operations;
  for (const auto& [name, described] : source["operations"].items()) {
    const std::string_view text = name;
    const size_t space = text.find(' ');
    operations.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return OpenApiDocument(operations, {.version = "1",
                                      .needs_key = true,
                                      .model_names = {"m"},
                                      .selects = {"dense"},
                                      .max_n = Rules().max_n,
                                      .vocab_size = Rules().vocab_size});
}

// A value that a schema allows, where limits leave a choice the least one.
class SchemaSampler {
 public:
  explicit SchemaSampler(const Json& document)
      : schemas_(document["components"]["schemas"]) {}

  Json Of(const Json& given) const {
    const Json schema = Resolved(given);
    if (schema.contains("const")) return schema["const"];
    if (schema.contains("enum")) return schema["enum"].front();
    Json value = OfType(schema);
    std::vector<Json> parts = schema.value("allOf", std::vector<Json>());
    if (schema.contains("anyOf")) parts.push_back(schema["anyOf"].front());
    for (const Json& part : parts) {
      const Json more = Of(part);
      if (value.is_object() && more.is_object()) {
        value.update(more);
      } else {
        value = more;
      }
    }
    return value;
  }

  Json Resolved(const Json& schema) const {
    if (!schema.contains("$ref")) return schema;
    const auto& path = schema["$ref"].get_ref<const std::string&>();
    return Resolved(schemas_[path.substr(path.rfind('/') + 1)]);
  }

 private:
  Json OfType(const Json& schema) const {
    Json type = schema.value("type", Json("object"));
    if (type.is_array()) type = type.front();
    if (type == "string") return std::string(schema.value("minLength", 1), 'a');
    if (type == "boolean") return false;
    if (type == "integer" || type == "number") return schema["minimum"];
    if (type == "array") {
      Json list = Json::array();
      for (int i = 0; i < schema.value("minItems", 0); ++i) {
        list.push_back(Of(schema["items"]));
      }
      return list;
    }
    Json object = Json::object();
    for (const Json& name : schema.value("required", Json::array())) {
      const auto& text = name.get_ref<const std::string&>();
      object[text] = Of(schema.value("properties", Json::object())
                            .value(text, Json({{"type", "string"}})));
    }
    return object;
  }

  const Json schemas_;
};

const Json& SchemaOf(const Json& document, Endpoint endpoint) {
  return document["components"]["schemas"]
                 [std::string(RequestSchemaOf(endpoint))];
}

// The smallest request, and what must stand beside some fields.
Json RequestWith(const Json& document, Endpoint endpoint,
                 const std::string& name, const Json& value) {
  Json request = SchemaSampler(document).Of(SchemaOf(document, endpoint));
  if (name == "stream_options") request["stream"] = true;
  if (name == "top_logprobs" && endpoint == Endpoint::kChatCompletions) {
    request["logprobs"] = true;
  }
  if (endpoint == Endpoint::kCompletions && value == Json(0)) {
    request["echo"] = true;  // of max_tokens
  }
  request[name] = value;
  return request;
}

// The complaint about a field, "" where there is none.
std::string Complaint(const Json& document, Endpoint endpoint,
                      const std::string& name, const Json& value) {
  const Json request = RequestWith(document, endpoint, name, value);
  const auto parsed = ParseCompletionRequest(request.dump(), endpoint, Rules());
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(OpenApiTest, DocumentsTheFieldsThatAreKnownAndNoOthers) {
  const Json document = Document();
  for (const Endpoint endpoint : kEndpoints) {
    std::vector<std::string> documented, known;
    const Json& properties = SchemaOf(document, endpoint)["properties"];
    for (const auto& [name, schema] : properties.items()) {
      documented.push_back(name);
    }
    for (const RequestField& field : FieldsOf(endpoint)) {
      known.emplace_back(field.name);
    }
    EXPECT_EQ(documented, known);
  }
}

// What is documented is taken, and null for what need not be there.
TEST(OpenApiTest, EveryDocumentedFieldIsAccepted) {
  const Json document = Document();
  const SchemaSampler sampler(document);
  for (const Endpoint endpoint : kEndpoints) {
    const Json& schema = SchemaOf(document, endpoint);
    for (const auto& [name, field] : schema["properties"].items()) {
      if (field.contains("description") && field.size() == 1) continue;
      EXPECT_EQ(Complaint(document, endpoint, name, sampler.Of(field)), "")
          << name;
      const Json& required = schema["required"];
      const bool must =
          std::ranges::find(required, Json(name)) != required.end();
      const std::string of_null = Complaint(document, endpoint, name, nullptr);
      EXPECT_EQ(of_null.empty(), !must) << name << ": " << of_null;
    }
  }
}

struct Bound {
  Json inside;
  Json outside;  // null: nothing can be
};

// Of one schema, without what it refers to.
std::vector<Bound> BoundsOf(const SchemaSampler& sampler, const Json& schema) {
  std::vector<Bound> bounds;
  for (const auto& [name, step] : {std::pair("minimum", -1), {"maximum", 1}}) {
    if (!schema.contains(name)) continue;
    const Json& limit = schema[name];
    const bool last = limit == Json(INT64_MIN) || limit == Json(INT64_MAX);
    Json beyond;
    if (limit.is_number_float()) beyond = limit.get<double>() + step * 0.01;
    if (limit.is_number_integer() && !last) {
      beyond = limit.get<int64_t>() + step;
    }
    bounds.push_back({limit, beyond});
  }
  if (schema.contains("maxLength")) {
    const auto most = schema["maxLength"].get<size_t>();
    bounds.push_back({std::string(most, 'a'), std::string(most + 1, 'a')});
  }
  if (schema.contains("minLength")) bounds.push_back({"a", ""});
  if (schema.contains("maxItems")) {
    const Json item = sampler.Of(schema["items"]);
    Json most = Json::array();
    for (size_t i = 0; i < schema["maxItems"].get<size_t>(); ++i) {
      most.push_back(item);
    }
    Json beyond = most;
    beyond.push_back(item);
    bounds.push_back({most, beyond});
  }
  if (schema.contains("minItems")) {
    bounds.push_back({sampler.Of(schema), Json::array()});
  }
  return bounds;
}

// Limits of a field, and of each of the forms that it may have.
int ExpectLimits(const Json& document, Endpoint endpoint,
                 const std::string& name, const Json& given) {
  const SchemaSampler sampler(document);
  const Json schema = sampler.Resolved(given);
  int num_checked = 0;
  for (const auto& [inside, outside] : BoundsOf(sampler, schema)) {
    EXPECT_EQ(Complaint(document, endpoint, name, inside), "") << name;
    ++num_checked;
    if (outside.is_null()) continue;
    const std::string refused = Complaint(document, endpoint, name, outside);
    EXPECT_TRUE(FieldNamedIn(refused).starts_with(name))
        << name << " beyond its limit: " << refused;
  }
  for (const Json& form : schema.value("anyOf", Json::array())) {
    num_checked += ExpectLimits(document, endpoint, name, form);
  }
  return num_checked;
}

TEST(OpenApiTest, DocumentedLimitsAreTheReaders) {
  const Json document = Document();
  for (const Endpoint endpoint : kEndpoints) {
    int num_checked = 0;
    for (const auto& [name, schema] :
         SchemaOf(document, endpoint)["properties"].items()) {
      num_checked += ExpectLimits(document, endpoint, name, schema);
    }
    EXPECT_GE(num_checked, 30);
  }
}

// Names that are within an object's, too.
TEST(OpenApiTest, ToolNamesAndBiasesAreAsDocumented) {
  const Json document = Document();
  const Json& schemas = document["components"]["schemas"];
  const auto most = schemas["FunctionName"]["maxLength"].get<size_t>();
  const auto tool = [](const std::string& name) {
    return Json::array(
        {{{"type", "function"}, {"function", {{"name", name}}}}});
  };
  const Endpoint chat = Endpoint::kChatCompletions;
  EXPECT_EQ(Complaint(document, chat, "tools", tool(std::string(most, 'a'))),
            "");
  for (const std::string& name :
       {std::string(most + 1, 'a'), std::string(), std::string("a b")}) {
    EXPECT_NE(Complaint(document, chat, "tools", tool(name)), "") << name;
  }
  EXPECT_EQ(Complaint(document, chat, "logit_bias", {{"99", -100}}), "");
  for (const char* name : {"100", "-0", "07", "+1", "1.0", "", "a"}) {
    EXPECT_NE(Complaint(document, chat, "logit_bias", {{name, 1}}), "") << name;
  }
}

// Whatever a schema refers to is there, and all that is there is used.
TEST(OpenApiTest, RefersToWhatIsThere) {
  const Json document = Document();
  const std::string text = document.dump();
  const Json& schemas = document["components"]["schemas"];
  constexpr std::string_view kBegin = "\"#/components/schemas/";
  std::set<std::string> named;
  for (size_t at = text.find(kBegin); at != std::string::npos;
       at = text.find(kBegin, at + 1)) {
    const size_t begin = at + kBegin.size();
    named.insert(text.substr(begin, text.find('"', begin) - begin));
  }
  for (const std::string& name : named) EXPECT_TRUE(schemas.contains(name));
  for (const auto& [name, schema] : schemas.items()) {
    EXPECT_TRUE(named.contains(name)) << name;
  }
  EXPECT_EQ(text.find("\"@"), std::string::npos);
}

TEST(OpenApiTest, WithoutAKeyNothingNeedsOne) {
  const std::vector<OpenApiOperation> none;
  EXPECT_TRUE(Document().contains("security"));
  EXPECT_DEATH(OpenApiDocument(none, {}), "operations");
}

}  // namespace
}  // namespace winnow
