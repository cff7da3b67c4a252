#include "text/tools/parameter_types.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/grammar/held_schema.h"
#include "text/tools/literal_reader.h"
#include "text/tools/parameter_list.h"

namespace winnow {
namespace {

using nlohmann::json;
using Types = uint8_t;

constexpr Types kNull = 1;
constexpr Types kBoolean = 2;
constexpr Types kInteger = 4;
constexpr Types kNumber = 8;
constexpr Types kString = 16;
constexpr Types kArray = 32;
constexpr Types kObject = 64;

// Of one parameter's schema, references followed: they may go round.
constexpr int kMaxSchemas = 256;

// JSON schema's names, and Python's, which some write there.
Types TypeNamed(const json& name) {
  if (!name.is_string()) return 0;
  const auto& text = name.get_ref<const std::string&>();
  if (text == "string" || text == "str") return kString;
  if (text == "integer" || text == "int") return kInteger;
  if (text == "number" || text == "float") return kNumber;
  if (text == "boolean" || text == "bool") return kBoolean;
  if (text == "array" || text == "list") return kArray;
  if (text == "object" || text == "dict") return kObject;
  return text == "null" ? kNull : Types{0};
}

Types TypeOfValue(const json& value) {
  if (value.is_number_integer()) return kInteger;
  return TypeNamed(value.type_name());
}

// As HoldSchema writes references.
constexpr std::string_view kDefinition = "#/$defs/";

// A tool's schema, with references that are simple to follow.
json RootOf(const std::string& parameters_json) {
  const bool refers = parameters_json.find("\"$") != std::string::npos;
  if (refers) {
    const Result<HeldSchema> held =
        HoldSchema(parameters_json, UnheldKeywords::kLeftOut);
    if (held.ok()) {
      return WithoutReference(nlohmann::ordered_json::parse(held->json));
    }
  }
  return json::parse(parameters_json, nullptr, /*allow_exceptions=*/false);
}

// Reads one parameter's schema within its tool's.
class SchemaTypes {
 public:
  explicit SchemaTypes(const json& root) : root_(root) {}

  Types Of(const json& schema) {
    if (!schema.is_object() || ++num_schemas_ > kMaxSchemas) return 0;
    if (const auto found = schema.find("$ref"); found != schema.end()) {
      return OfReference(*found);
    }
    if (const auto found = schema.find("type"); found != schema.end()) {
      if (!found->is_array()) return TypeNamed(*found);
      Types types = 0;
      for (const json& name : *found) types |= TypeNamed(name);
      return types;
    }
    if (const auto found = schema.find("enum");
        found != schema.end() && found->is_array()) {
      Types types = 0;
      for (const json& value : *found) types |= TypeOfValue(value);
      return types;
    }
    if (const auto found = schema.find("const"); found != schema.end()) {
      return TypeOfValue(*found);
    }
    return OfMembers(schema);
  }

 private:
  Types OfReference(const json& reference) {
    if (!reference.is_string()) return 0;
    const auto& text = reference.get_ref<const std::string&>();
    if (!text.starts_with(kDefinition) || !root_.contains("$defs")) return 0;
    const json& definitions = root_["$defs"];
    const auto found = definitions.find(text.substr(kDefinition.size()));
    return found == definitions.end() ? Types{0} : Of(*found);
  }

  Types OfMembers(const json& schema) {
    for (const char* name : {"anyOf", "oneOf"}) {
      const auto found = schema.find(name);
      if (found == schema.end() || !found->is_array()) continue;
      Types types = 0;
      for (const json& member : *found) {
        const Types own = Of(member);
        types |= own == 0 ? kString : own;
      }
      return types;
    }
    if (const auto found = schema.find("allOf");
        found != schema.end() && found->is_array()) {
      for (const json& member : *found) {
        if (const Types own = Of(member); own != 0) return own;
      }
    }
    if (schema.contains("properties")) return kObject;
    return schema.contains("items") ? kArray : Types{0};
  }

  const json& root_;
  int num_schemas_ = 0;
};

bool IsWhole(const std::string& number) {
  const double value = json::parse(number, nullptr, false).get<double>();
  return std::isfinite(value) && value == std::floor(value);
}

bool Fits(Types types, const Literal& literal) {
  switch (literal.kind) {
    case LiteralKind::kNull:
      return (types & kNull) != 0;
    case LiteralKind::kBoolean:
      return (types & kBoolean) != 0;
    case LiteralKind::kInteger:
      return (types & (kInteger | kNumber)) != 0;
    case LiteralKind::kNumber:
      return (types & kNumber) != 0 ||
             ((types & kInteger) != 0 && IsWhole(literal.json));
    case LiteralKind::kString:
      return false;  // in quotes: the text as it stands
    case LiteralKind::kArray:
      return (types & kArray) != 0;
    case LiteralKind::kObject:
      return (types & kObject) != 0;
  }
  return false;
}

std::optional<std::string> TypedJson(Types types, std::string_view text) {
  const std::optional<Literal> literal = LiteralOf(text);
  if (!literal) return std::nullopt;
  if (Fits(types, *literal)) return literal->json;
  if (literal->kind != LiteralKind::kString) return std::nullopt;
  const auto content = json::parse(literal->json).get<std::string>();
  const std::optional<Literal> inner = LiteralOf(content);
  if (!inner || !Fits(types, *inner)) return std::nullopt;
  return inner->json;
}

bool IsWord(std::string_view text, std::string_view word) {
  return std::ranges::equal(text, word, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  });
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsCallSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsCallSpace(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

ParameterTypes::ParameterTypes(std::span<const CallableTool> tools) {
  for (const CallableTool& tool : tools) {
    Parameters& parameters = tools_[tool.name];
    const json root = RootOf(tool.parameters_json);
    if (!root.is_object()) continue;
    const json properties = root.value("properties", json::object());
    if (!properties.is_object()) continue;
    for (const auto& [name, schema] : properties.items()) {
      parameters[name] = SchemaTypes(root).Of(schema);
    }
  }
}

bool ParameterTypes::HasTool(std::string_view name) const {
  return tools_.contains(name);
}

ParameterTypes::Types ParameterTypes::TypesOf(
    std::string_view tool, std::string_view parameter) const {
  const auto of_tool = tools_.find(tool);
  if (of_tool == tools_.end()) return 0;
  const auto found = of_tool->second.find(parameter);
  return found == of_tool->second.end() ? Types{0} : found->second;
}

bool ParameterTypes::MayBeString(std::string_view tool,
                                 std::string_view parameter) const {
  const Types types = TypesOf(tool, parameter);
  return types == 0 || (types & kString) != 0;
}

std::string ParameterTypes::JsonOf(std::string_view tool,
                                   std::string_view parameter,
                                   std::string_view text) const {
  const Types types = TypesOf(tool, parameter);
  if (types == 0 || types == kString) return QuotedJson(text);
  if (const auto value = TypedJson(types, text)) return *value;
  if ((types & kString) != 0) return QuotedJson(text);
  const std::string_view word = Trimmed(text);
  if (IsWord(word, "null") || IsWord(word, "none")) return "null";
  if ((types & kBoolean) != 0) {
    if (IsWord(word, "true")) return "true";
    if (IsWord(word, "false")) return "false";
  }
  return QuotedJson(text);
}

}  // namespace winnow
