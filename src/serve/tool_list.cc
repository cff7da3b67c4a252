#include "serve/tool_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/request_ranges.h"
#include "text/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

bool IsToolName(const json& name) {
  if (!name.is_string()) return false;
  const auto& text = name.get_ref<const std::string&>();
  return !text.empty() && text.size() <= kMaxToolNameBytes &&
         std::ranges::all_of(text, [](char c) {
           const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           return letter || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                  c == '.';
         });
}

// Where a tool has what, and by what name.
struct ToolShape {
  bool nested = false;  // in "function"
  const char* schema = "parameters";
  const char* type = "function";
  bool needs_type = true;
};

ToolShape ShapeOf(Endpoint endpoint) {
  if (endpoint == Endpoint::kMessages || endpoint == Endpoint::kMessageTokens) {
    return {.schema = "input_schema", .type = "custom", .needs_type = false};
  }
  return {.nested = endpoint == Endpoint::kChatCompletions};
}

Status CheckFunction(const json& function, const std::string& field,
                     const char* schema_name) {
  if (!function.is_object()) return WrongField(field, "an object");
  const json name = function.value("name", json());
  if (!IsToolName(name)) {
    return WrongField(field + ".name",
                      fmt::format("1 to {} letters, digits, \"_\", \"-\" or "
                                  "\".\"",
                                  kMaxToolNameBytes));
  }
  const json description = function.value("description", json());
  if (!description.is_null() && !description.is_string()) {
    return WrongField(field + ".description", "a string");
  }
  const json schema = function.value(schema_name, json());
  if (!schema.is_null() && !schema.is_object()) {
    return WrongField(fmt::format("{}.{}", field, schema_name), "an object");
  }
  return Ok{};
}

// As chats have it, with the schema as it was written.
std::string NestedTool(const json& function, std::string_view schema) {
  std::string text = "\"name\":" + function["name"].dump();
  const json description = function.value("description", json());
  if (!description.is_null()) text += ",\"description\":" + description.dump();
  if (schema != "null") text += ",\"parameters\":" + std::string(schema);
  return "{\"type\":\"function\",\"function\":{" + text + "}}";
}

}  // namespace

Result<ToolList> ReadTools(const json& tools, std::string_view raw,
                           Endpoint endpoint) {
  const ToolShape shape = ShapeOf(endpoint);
  ToolList list;
  if (tools.is_null() || tools == json::array()) return list;
  const std::vector<std::string_view> written = ElementsOf(raw);
  if (!tools.is_array() || tools.size() > kMaxTools ||
      written.size() != tools.size()) {
    return WrongField("tools",
                      fmt::format("a list of at most {} tools", kMaxTools));
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string field = fmt::format("tools[{}]", i);
    const json& tool = tools[i];
    if (!tool.is_object()) return WrongField(field, "an object");
    const json type = tool.value("type", json());
    if (endpoint == Endpoint::kResponses && type.is_string() &&
        type != shape.type) {
      list.left_out.push_back("tools." + type.get<std::string>());
      continue;
    }
    if (type != shape.type && (shape.needs_type || !type.is_null())) {
      return WrongField(field + ".type", fmt::format("\"{}\"", shape.type));
    }
    const json function = shape.nested ? tool.value("function", json()) : tool;
    RETURN_IF_ERROR(CheckFunction(
        function, shape.nested ? field + ".function" : field, shape.schema));
    const std::string_view raw_function =
        shape.nested ? MemberOf(written[i], "function") : written[i];
    const std::string_view schema = MemberOf(raw_function, shape.schema);
    list.tools.push_back(
        {.name = function["name"].get<std::string>(),
         .parameters_json = std::string(schema == "null" ? "" : schema)});
    list.strict = list.strict || function.value("strict", json()) == json(true);
    list.json += list.json.empty() ? "[" : ",";
    list.json +=
        shape.nested ? std::string(written[i]) : NestedTool(function, schema);
  }
  if (!list.json.empty()) list.json += "]";
  return list;
}

Result<ToolChoice> ReadToolChoice(const json& choice, Endpoint endpoint) {
  if (choice.is_null() || choice == "auto") return ToolChoice();
  if (choice == "none") return ToolChoice{.any = false};
  if (choice == "required") return ToolChoice{.forced = true};
  const bool nested = endpoint == Endpoint::kChatCompletions;
  if (choice.is_object() && choice.value("type", json()) == "function") {
    const json function = nested ? choice.value("function", json()) : choice;
    const json name =
        function.is_object() ? function.value("name", json()) : json();
    if (IsToolName(name)) {
      return ToolChoice{.forced = true, .name = name.get<std::string>()};
    }
  }
  return WrongField("tool_choice",
                    "\"none\", \"auto\", \"required\" or a function that is "
                    "named");
}

Result<std::vector<CallableTool>> ForcedTools(const ToolChoice& choice,
                                              const ToolList& list) {
  std::vector<CallableTool> forced;
  if (!choice.forced) return forced;
  for (const CallableTool& tool : list.tools) {
    if (choice.name.empty() || choice.name == tool.name) forced.push_back(tool);
  }
  if (forced.empty() && choice.name.empty()) {
    return WrongField("tool_choice",
                      "\"none\" or \"auto\" where tools has "
                      "none that could be called");
  }
  if (forced.empty()) {
    return WrongField(
        "tool_choice",
        fmt::format("one of the functions of tools, is \"{}\"", choice.name));
  }
  return forced;
}

}  // namespace winnow
