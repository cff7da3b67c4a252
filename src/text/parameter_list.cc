#include "text/parameter_list.h"

#include <algorithm>
#include <array>
#include <map>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// What asks nothing of an object, or is read here.
constexpr std::array<std::string_view, 15> kKnown = {
    "type",     "properties",  "required",  "additionalProperties",
    "$defs",    "definitions", "title",     "description",
    "$schema",  "$id",         "$comment",  "default",
    "examples", "strict",      "deprecated"};

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

Status CheckNames(const CallableTool& tool, const Json& schema) {
  if (!schema.is_object()) return Refused(tool, "it is no object");
  for (const auto& [name, value] : schema.items()) {
    if (std::ranges::find(kKnown, name) == kKnown.end()) {
      return Refused(tool, fmt::format("it has {}", ShownJson(name)));
    }
  }
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

Result<ParameterList> ParametersOf(const CallableTool& tool) {
  const Json schema = tool.parameters_json.empty()
                          ? Json::object()
                          : Json::parse(tool.parameters_json);
  RETURN_IF_ERROR(CheckNames(tool, schema));
  ParameterList list;
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
  for (const char* name : {"$defs", "definitions"}) {
    if (schema.contains(name)) list.definitions[name] = schema[name];
  }
  list.any = list.parameters.empty() && !closed;
  return list;
}

}  // namespace winnow
