#include "serve/request/tool_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/request/request_ranges.h"
#include "text/grammar/json_slices.h"

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

std::string ToolList::Json() const {
  std::string list;
  for (const ToldTool& told : tools)
    list += (list.empty() ? "[" : ",") + told.json;
  return list.empty() ? list : list + "]";
}

bool ToolList::strict() const {
  return std::ranges::any_of(tools, &ToldTool::strict);
}

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
    if (type.is_string() && type != shape.type) {
      list.left_out.Add("tools." + type.get<std::string>());
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
        {.tool = {.name = function["name"].get<std::string>(),
                  .parameters_json =
                      std::string(schema == "null" ? "" : schema)},
         .json = shape.nested ? std::string(written[i])
                              : NestedTool(function, schema),
         .strict = function.value("strict", json()) == json(true)});
  }
  return list;
}

namespace {

// The function that {"type": "function", ...} names, in the endpoint's shape;
// null where it names none.
json NamedFunction(const json& choice, bool nested) {
  if (!choice.is_object() || choice.value("type", json()) != "function") {
    return nullptr;
  }
  const json function = nested ? choice.value("function", json()) : choice;
  return function.is_object() ? function.value("name", json()) : json();
}

// {"mode": "auto" or "required", "tools": [...]}. Of tools that are no
// functions the model is not told anyway.
Result<ToolChoice> ReadAllowed(const json& choice, bool nested) {
  const std::string field =
      nested ? "tool_choice.allowed_tools" : "tool_choice";
  const json allowed = nested ? choice.value("allowed_tools", json()) : choice;
  if (!allowed.is_object()) return WrongField(field, "an object");
  const json mode = allowed.value("mode", json());
  if (mode != "auto" && mode != "required") {
    return WrongField(field + ".mode", "\"auto\" or \"required\"");
  }
  const json tools = allowed.value("tools", json());
  if (!tools.is_array() || tools.size() > kMaxTools) {
    return WrongField(field + ".tools",
                      fmt::format("a list of at most {} tools", kMaxTools));
  }
  ToolChoice read = {.forced = mode == "required"};
  read.allowed.emplace();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string each = fmt::format("{}.tools[{}]", field, i);
    const json type =
        tools[i].is_object() ? tools[i].value("type", json()) : json();
    if (!type.is_string()) return WrongField(each + ".type", "a string");
    if (type != "function") continue;
    const json name = NamedFunction(tools[i], nested);
    if (!IsToolName(name)) {
      return WrongField(each + (nested ? ".function.name" : ".name"),
                        "the name of a function of tools");
    }
    read.allowed->push_back(name.get<std::string>());
  }
  return read;
}

}  // namespace

Result<ToolChoice> ReadToolChoice(const json& choice, Endpoint endpoint) {
  if (choice.is_null() || choice == "auto") return ToolChoice();
  if (choice == "none") return ToolChoice{.any = false};
  if (choice == "required") return ToolChoice{.forced = true};
  const bool nested = endpoint == Endpoint::kChatCompletions;
  const json name = NamedFunction(choice, nested);
  if (IsToolName(name)) {
    return ToolChoice{.forced = true, .name = name.get<std::string>()};
  }
  const json type = choice.is_object() ? choice.value("type", json()) : json();
  if (type == "allowed_tools") return ReadAllowed(choice, nested);
  if (type.is_string() && type != "function") {
    ToolChoice read;
    read.left_out.Add("tool_choice." + type.get<std::string>());
    return read;
  }
  return WrongField("tool_choice",
                    "\"none\", \"auto\", \"required\", a function that is "
                    "named, or allowed_tools");
}

Status KeepAllowed(const ToolChoice& choice, ToolList& list) {
  if (!choice.allowed) return Ok{};
  const auto name_of = [](const ToldTool& told) { return told.tool.name; };
  for (const std::string& name : *choice.allowed) {
    if (std::ranges::find(list.tools, name, name_of) != list.tools.end()) {
      continue;
    }
    return WrongField(
        "tool_choice",
        fmt::format("of functions of tools, \"{}\" is none", name));
  }
  std::erase_if(list.tools, [&](const ToldTool& told) {
    return std::ranges::find(*choice.allowed, told.tool.name) ==
           choice.allowed->end();
  });
  return Ok{};
}

Result<std::vector<CallableTool>> ForcedTools(const ToolChoice& choice,
                                              const ToolList& list) {
  std::vector<CallableTool> forced;
  if (!choice.forced) return forced;
  for (const ToldTool& told : list.tools) {
    if (choice.name.empty() || choice.name == told.tool.name) {
      forced.push_back(told.tool);
    }
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
