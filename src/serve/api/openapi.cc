#include "serve/api/openapi.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/ascii.h"
#include "base/check.h"
#include "engine/request/request.h"
#include "serve/request/chat_messages.h"
#include "serve/request/request_ranges.h"
#include "text/tokenize/stop_matcher.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;
using Use = RequestField::Use;

constexpr Endpoint kEndpoints[] = {
    Endpoint::kCompletions, Endpoint::kChatCompletions, Endpoint::kResponses,
    Endpoint::kMessages, Endpoint::kMessageTokens};

constexpr std::string_view kSchemas = "#/components/schemas/";

using Limits = std::map<std::string, Json, std::less<>>;

Json NamesOrNone(const std::vector<std::string>& names) {
  Json list = Json::array({""});
  for (const std::string& name : names) {
    if (std::ranges::find(list, Json(name)) == list.end()) list.push_back(name);
  }
  return list;
}

Limits LimitsOf(const OpenApiFacts& facts) {
  return {{"models", NamesOrNone(facts.model_names)},
          {"selects", NamesOrNone(facts.selects)},
          {"least_temperature", kTemperatureRange.min},
          {"most_temperature", kTemperatureRange.max},
          {"least_top_k", kTopKRange.min},
          {"least_penalty", kPenaltyRange.min},
          {"most_penalty", kPenaltyRange.max},
          {"least_repetition_penalty", kRepetitionPenaltyRange.min},
          {"most_repetition_penalty", kRepetitionPenaltyRange.max},
          {"least_bias", kBiasRange.min},
          {"most_bias", kBiasRange.max},
          {"max_biased_tokens", kMaxBiasedTokens},
          {"max_top_logprobs", kTopLogprobsRange.max},
          {"least_timeout", kTimeoutRange.min},
          {"most_timeout", kTimeoutRange.max},
          {"least_max_tokens", kMaxTokensRange.min},
          {"least_int32", INT32_MIN},
          {"most_int32", INT32_MAX},
          {"least_int64", kSeedRange.min},
          {"most_int64", kSeedRange.max},
          {"max_n", facts.max_n},
          {"last_token_id", facts.vocab_size - 1},
          {"max_prompts", kMaxPrompts},
          {"max_messages", kMaxMessages},
          {"max_bad_words", kMaxBadWords},
          {"max_bad_word_bytes", kMaxBadWordBytes},
          {"max_tools", kMaxTools},
          {"max_tool_name_bytes", kMaxToolNameBytes},
          {"max_tool_calls", kMaxToolCalls},
          {"max_cache_salt_bytes", kMaxCacheSaltBytes},
          {"max_stops", kMaxStops},
          {"max_stop_bytes", kMaxStopBytes}};
}

// "@name" becomes the limit of that name.
void FillIn(const Limits& limits, Json& value) {
  if (value.is_structured()) {
    for (Json& each : value) FillIn(limits, each);
    return;
  }
  if (!value.is_string()) return;
  const auto& text = value.get_ref<const std::string&>();
  if (!text.starts_with('@')) return;
  const auto found = limits.find(std::string_view(text).substr(1));
  CHECK(found != limits.end(), "openapi.json: no limit {}", text);
  value = found->second;
}

Json Reference(std::string_view name) {
  return {{"$ref", fmt::format("{}{}", kSchemas, name)}};
}

// The same, or null.
Json OrNull(Json schema) {
  if (schema.contains("enum")) {
    schema["enum"].push_back(nullptr);
  } else if (schema.contains("anyOf")) {
    schema["anyOf"].push_back({{"type", "null"}});
  } else if (schema.contains("type")) {
    schema["type"] = Json::array({schema["type"], "null"});
  } else {
    Json either = {{"anyOf", Json::array()}};
    if (schema.contains("description")) {
      either["description"] = schema["description"];
      schema.erase("description");
    }
    either["anyOf"].push_back(std::move(schema));
    either["anyOf"].push_back({{"type", "null"}});
    return either;
  }
  return schema;
}

// Takes schemas of fields and remembers which.
class FieldSchemas {
 public:
  explicit FieldSchemas(const Json& fields) : fields_(fields) {}

  // The one for this request alone, or that for all.
  Json Of(std::string_view field, std::string_view request) {
    const std::string own = fmt::format("{}@{}", field, request);
    const std::string name = fields_.contains(own) ? own : std::string(field);
    CHECK(fields_.contains(name), "openapi.json: no field {} of {}", field,
          request);
    used_.insert(name);
    return fields_[name];
  }
  void CheckAllUsed() const {
    for (const auto& [name, schema] : fields_.items()) {
      CHECK(used_.contains(name), "openapi.json: no request has {}", name);
    }
  }

 private:
  const Json& fields_;
  std::set<std::string> used_;
};

Json RefusedSchema(const RequestField& field) {
  Json values = Json::parse(field.neutral);
  values.push_back(nullptr);
  return {{"enum", std::move(values)},
          {"description", fmt::format("Refused: {}", field.reason)}};
}

Json RequestSchema(Endpoint endpoint, const Json& required,
                   FieldSchemas& schemas) {
  Json properties = Json::object();
  for (const RequestField& field : FieldsOf(endpoint)) {
    const std::string name(field.name);
    switch (field.use) {
      case Use::kRead: {
        Json schema = schemas.Of(name, RequestSchemaOf(endpoint));
        const bool must =
            std::ranges::find(required, Json(name)) != required.end();
        properties[name] = must ? std::move(schema) : OrNull(std::move(schema));
        break;
      }
      case Use::kIgnored:
        properties[name] = {{"description", "Changes nothing here"}};
        break;
      case Use::kRefused:
        properties[name] = RefusedSchema(field);
        break;
    }
  }
  return {{"type", "object"},
          {"required", required},
          {"properties", std::move(properties)}};
}

std::string_view MeaningOf(std::string_view status) {
  static constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"200", "Done"},
      {"400",
       "Refused: the message names the field, what it must be and what "
       "it is"},
      {"401", "The server's key is missing"},
      {"403",
       "The Host header does not name this server, or a page of another asks"},
      {"404", "No such model"},
      {"413", "The body is too long"},
      {"415", "The body is encoded"},
      {"429", "Too many requests: Retry-After says when to come again"},
      {"431", "The headers are too long"},
      {"500", "The server is at fault"},
      {"503",
       "The server has no room for the body, or ends: Retry-After says when "
       "to come again; or its device has failed"},
      {"504", "The request's time is over"}};
  for (const auto& [known, meaning] : kMeanings) {
    if (known == status) return meaning;
  }
  CHECK(false, "openapi.json: status {}", status);
}

Json ErrorResponse(std::string_view status, std::string_view path) {
  const bool anthropic = path.starts_with("/v1/messages");
  return {{"description", MeaningOf(status)},
          {"content",
           {{"application/json",
             {{"schema", Reference(anthropic ? "MessageError" : "Error")}}}}}};
}

// {"schema": NAME, "event": NAME, "end": TEXT}: of a body, of an event's data,
// and the last of those.
Json ResponseOf(std::string_view status, const Json& given,
                std::string_view path) {
  if (given.contains("content")) return given;
  if (!given.contains("schema")) return ErrorResponse(status, path);
  const auto name = [&given](const char* member) {
    return Reference(given[member].get<std::string>());
  };
  Json content = {{"application/json", {{"schema", name("schema")}}}};
  if (given.contains("event")) {
    Json data = {{"type", "string"},
                 {"contentMediaType", "application/json"},
                 {"contentSchema", name("event")}};
    if (given.contains("end")) {
      data = {{"anyOf", {{{"const", given["end"]}}, std::move(data)}}};
    }
    content["text/event-stream"] = {
        {"schema",
         {{"type", "object"},
          {"required", Json::array({"data"})},
          {"properties", {{"event", {{"type", "string"}}}, {"data", data}}}}}};
  }
  return {{"description", MeaningOf(status)}, {"content", std::move(content)}};
}

Json OperationOf(const OpenApiOperation& operation, const Json& described) {
  Json told = described;
  Json responses = Json::object();
  for (const auto& [status, given] : described["responses"].items()) {
    responses[status] = ResponseOf(status, given, operation.path);
  }
  std::vector<std::string_view> refusals = {"400", "401", "403", "431"};
  if (operation.method == "POST") {
    refusals.insert(refusals.end(), {"413", "415", "503"});
  }
  for (const std::string_view status : refusals) {
    responses[std::string(status)] = ErrorResponse(status, operation.path);
  }
  for (auto& [status, response] : responses.items()) {
    response["headers"] = {
        {"X-Request-Id", {{"schema", {{"type", "string"}}}}}};
  }
  told["responses"] = std::move(responses);
  if (!told.contains("request")) return told;
  const std::string request = told["request"].get<std::string>();
  told.erase("request");
  told["requestBody"] = {
      {"required", true},
      {"content", {{"application/json", {{"schema", Reference(request)}}}}}};
  return told;
}

Json PathsOf(std::span<const OpenApiOperation> operations,
             const Json& described) {
  Json paths = Json::object();
  for (const OpenApiOperation& operation : operations) {
    const std::string name =
        fmt::format("{} {}", operation.method, operation.path);
    CHECK(described.contains(name), "openapi.json: no operation {}", name);
    std::string method(operation.method);
    std::ranges::transform(method, method.begin(), ToLower);
    paths[std::string(operation.path)][method] =
        OperationOf(operation, described[name]);
  }
  CHECK(described.size() == operations.size(),
        "openapi.json: {} operations, not {}", described.size(),
        operations.size());
  return paths;
}

}  // namespace

std::string_view RequestSchemaOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return "CompletionRequest";
    case Endpoint::kChatCompletions:
      return "ChatCompletionRequest";
    case Endpoint::kResponses:
      return "ResponseRequest";
    case Endpoint::kMessages:
      return "MessageRequest";
    case Endpoint::kMessageTokens:
      return "MessageTokensRequest";
  }
  CHECK(false, "endpoint={}", static_cast<int>(endpoint));
}

Json OpenApiDocument(std::span<const OpenApiOperation> operations,
                     const OpenApiFacts& facts) {
  Json source = Json::parse(kOpenApiTemplate);
  FillIn(LimitsOf(facts), source);
  Json info = source["info"];
  info["version"] = facts.version;
  FieldSchemas fields(source["fields"]);
  Json schemas = Json::object();
  for (const Endpoint endpoint : kEndpoints) {
    const std::string name(RequestSchemaOf(endpoint));
    schemas[name] =
        RequestSchema(endpoint, source["requests"][name]["required"], fields);
  }
  fields.CheckAllUsed();
  schemas.update(source["schemas"]);
  Json document = {{"openapi", "3.1.0"},
                   {"info", std::move(info)},
                   {"paths", PathsOf(operations, source["operations"])},
                   {"components", {{"schemas", std::move(schemas)}}}};
  if (!facts.needs_key) return document;
  document["components"]["securitySchemes"] = {
      {"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
      {"header",
       {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}}};
  document["security"] =
      Json::array({{{"bearer", Json::array()}}, {{"header", Json::array()}}});
  for (const char* open : {"/", "/health", "/ping"}) {
    document["paths"][open]["get"]["security"] = Json::array();
  }
  return document;
}

}  // namespace winnow
