#include "text/tools/parameter_list.h"

#include <algorithm>
#include <array>
#include <map>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// What is read here.
constexpr std::array<std::string_view, 6> kRead = {
    "type",  "properties", "required", "additionalProperties",
    "$defs", "$schema"};
// References followed to an object: they may go round.
constexpr int kMaxReferences = 16;

Error Refused(const CallableTool& tool, std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "the schema of {} must be an object's with its parameters "
                   "in \"properties\" alone, as the template writes them one "
                   "by one; {}",
                   tool.name, what);
}

bool IsObjectType(const Json& type) {
  return type == "object" ||
         (type.is_array() && std::ranges::find(type, "object") != type.end());
}

Status CheckObject(const CallableTool& tool, const Json& schema) {
  if (!schema.is_object()) return Refused(tool, "it is no object");
  if (schema.contains("type") && !IsObjectType(schema["type"])) {
    return Refused(tool, "its type is another");
  }
  if (schema.contains("properties") && !schema["properties"].is_object()) {
    return Refused(tool, "properties is no object");
  }
  return Ok{};
}

}  // namespace

std::string ShownJson(const Json& value) {
  constexpr size_t kMaxBytes = 100;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                Json::error_handler_t::replace);
  if (text.size() > kMaxBytes) text.replace(kMaxBytes, text.npos, "...");
  return text;
}

Json WithoutReference(Json schema) {
  constexpr std::string_view kBegin = "#/$defs/";
  for (int i = 0; i < kMaxReferences && schema.is_object(); ++i) {
    const auto reference = schema.find("$ref");
    if (reference == schema.end() || !reference->is_string()) break;
    const auto name = reference->get<std::string>().substr(kBegin.size());
    Json definitions = schema["$defs"];
    const Json target = definitions.value(name, Json());
    if (!target.is_object()) break;
    schema.erase("$ref");
    for (const auto& [keyword, value] : target.items()) {
      if (!schema.contains(keyword)) schema[keyword] = value;
    }
  }
  return schema;
}

Result<ParameterList> ParametersOf(const CallableTool& tool) {
  const Json schema = tool.parameters_json.empty()
                          ? Json::object()
                          : WithoutReference(Json::parse(tool.parameters_json));
  RETURN_IF_ERROR(CheckObject(tool, schema));
  ParameterList list;
  for (const auto& [name, value] : schema.items()) {
    if (std::ranges::find(kRead, name) == kRead.end()) {
      list.unheld.push_back(name);
    }
  }
  std::map<std::string, size_t> places;
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, value] : properties.items()) {
    places[name] = list.parameters.size();
    list.parameters.push_back({.name = name, .schema = value});
  }
  const bool closed =
      schema.value("additionalProperties", Json(true)) == Json(false);
  const Json required = schema.value("required", Json::array());
  if (!required.is_array()) return Refused(tool, "required is no list");
  for (const Json& name : required) {
    if (!name.is_string()) return Refused(tool, "required has no names");
    const auto [place, is_new] =
        places.try_emplace(name.get<std::string>(), list.parameters.size());
    if (is_new && closed) {
      return Refused(tool, "it requires what it does not allow");
    }
    if (is_new) {
      list.parameters.push_back(
          {.name = place->first, .schema = Json::object()});
    }
    list.parameters[place->second].required = true;
  }
  if (schema.contains("$defs")) list.definitions["$defs"] = schema["$defs"];
  list.any = list.parameters.empty() && !closed;
  return list;
}

}  // namespace winnow
