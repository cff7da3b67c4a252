#include "serve/request/written_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar/json_slices.h"

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

// The same without a name that occurs twice in an object: as in Python the last
// value counts, in the place of the first. The rest stays as it is written.
// REQUIRES: `written` is valid JSON, of no great depth.
std::string WithNamesOnce(std::string_view written) {
  written = Trimmed(written);
  std::string text;
  if (written.starts_with('[')) {
    for (const std::string_view element : ElementsOf(written)) {
      text += (text.empty() ? "" : ",") + WithNamesOnce(element);
    }
    return "[" + text + "]";
  }
  if (!written.starts_with('{')) return std::string(written);
  std::vector<JsonMember> members;
  std::unordered_map<std::string, size_t> places;
  for (const JsonMember& member : MembersOf(written)) {
    const auto [place, is_new] =
        places.emplace(UnescapedName(member.first), members.size());
    if (is_new) {
      members.push_back(member);
    } else {
      members[place->second].second = member.second;
    }
  }
  for (const auto& [name, value] : members) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name,
                        WithNamesOnce(value));
  }
  return "{" + text + "}";
}

// None where it is not the text of an object.
std::optional<std::string> ObjectIn(std::string_view text,
                                    const JsonLimits& limits) {
  if (!text.starts_with('{')) return std::nullopt;
  if (JsonFields::Parse(std::string(text), "arguments", limits).ok()) {
    return std::string(text);
  }
  if (DepthOf(text) > limits.max_depth) return std::nullopt;
  if (!ParsedOrDiscarded(text).is_object()) return std::nullopt;
  return WithNamesOnce(text);
}

std::string WithOneMember(std::string_view name, std::string_view text) {
  return json{{std::string(name), std::string(text)}}.dump();
}

}  // namespace

std::string UnescapedName(std::string_view name) {
  if (name.find('\\') == std::string_view::npos) return std::string(name);
  return json::parse(fmt::format("\"{}\"", name)).get<std::string>();
}

std::string CallIdText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : std::string();
}

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
