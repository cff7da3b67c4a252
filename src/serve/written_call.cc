#include "serve/written_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kInvalidName = "INVALID_JSON";
constexpr std::string_view kInputName = "input";

// Without white space and a byte order mark around it.
std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// How deep its braces and brackets go, whether or not it is JSON.
int DepthOf(std::string_view text) {
  int depth = 0, most = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '{' || c == '[') most = std::max(most, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  return most;
}

json ParsedOrDiscarded(std::string_view text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// None where it is not the text of an object.
std::optional<std::string> ObjectIn(std::string_view text,
                                    const JsonLimits& limits) {
  if (!text.starts_with('{')) return std::nullopt;
  if (JsonFields::Parse(std::string(text), "arguments", limits).ok()) {
    return std::string(text);
  }
  // Of a name that occurs twice, as json.loads has it, the last value counts.
  if (DepthOf(text) > limits.max_depth) return std::nullopt;
  const json object = ParsedOrDiscarded(text);
  if (!object.is_object()) return std::nullopt;
  return object.dump();
}

std::string WithOneMember(std::string_view name, std::string_view text) {
  return json{{std::string(name), std::string(text)}}.dump();
}

}  // namespace

std::string InputObject(std::string_view text) {
  return WithOneMember(kInputName, text);
}

std::string ArgumentsObject(std::string_view text, const JsonLimits& limits) {
  const std::string_view trimmed = Trimmed(text);
  if (trimmed.empty() || trimmed == "null") return "{}";
  if (auto object = ObjectIn(trimmed, limits)) return *std::move(object);
  if (trimmed.starts_with('"')) {
    // A text that was made a JSON string once too often.
    const json inner = ParsedOrDiscarded(trimmed);
    if (inner.is_string()) {
      const std::string again = inner.get<std::string>();
      const std::string_view inside = Trimmed(again);
      if (inside.empty()) return "{}";
      if (auto object = ObjectIn(inside, limits)) return *std::move(object);
    }
  }
  return WithOneMember(kInvalidName, text);
}

std::string ArgumentsText(const json& value, std::string_view written) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? std::string() : std::string(written);
}

std::string CallJson(const WrittenCall& call, const JsonLimits& limits) {
  const json id(call.id), name(call.name);
  return fmt::format(
      R"({{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}})",
      id.dump(), name.dump(), ArgumentsObject(call.arguments, limits));
}

}  // namespace winnow
