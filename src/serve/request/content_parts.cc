#include "serve/request/content_parts.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "serve/request/request_fields.h"

namespace winnow {
namespace {

using nlohmann::json;

// OpenAI's and Anthropic's kinds of parts with a "text".
constexpr std::string_view kTextTypes[] = {"text", "input_text", "output_text",
                                           "reasoning_text", "summary_text"};

constexpr const char* kRefusal = "refusal";

bool IsOf(std::span<const std::string_view> types, std::string_view type) {
  return std::ranges::find(types, type) != types.end();
}

// Empty: it has none.
std::string TypeIn(const json& part) {
  const json type = part.is_object() ? part.value("type", json()) : json();
  return type.is_string() ? type.get<std::string>() : std::string();
}

// A part of an earlier turn: what can only be meant as a text becomes one.
json AsMeant(const json& part) {
  if (part.is_string()) return {{"type", "text"}, {"text", part}};
  const bool has_text = part.is_object() && TypeIn(part).empty() &&
                        part.value("text", json()).is_string();
  return has_text ? json{{"type", "text"}, {"text", part["text"]}} : part;
}

// Those that say anything, a line each.
std::string Lines(const std::vector<json>& texts) {
  std::string lines;
  for (const json& text : texts) {
    if (!text.is_string() || text == "") continue;
    lines += (lines.empty() ? "" : "\n") + text.get<std::string>();
  }
  return lines;
}

}  // namespace

Error NothingTold(const std::string& field) {
  return WrongField(field + ".type",
                    "of a kind that has text, as the message says nothing "
                    "else: the model reads text alone");
}

std::string TextPartsJson(const json& content) {
  if (!content.is_array() || content.empty()) return {};
  std::string list;
  for (const json& part : content) {
    const json type = part.is_object() ? part.value("type", json()) : json();
    const json text = part.is_object() ? part.value("text", json()) : json();
    if (!type.is_string() || !text.is_string()) return {};
    if (!IsOf(kTextTypes, type.get<std::string>())) return {};
    list += fmt::format(R"({}{{"type":"text","text":{}}})",
                        list.empty() ? "" : ",", text.dump());
  }
  return "[" + list + "]";
}

Result<std::string> StringIn(const json& object, const std::string& field,
                             const char* name) {
  const json value = object.value(name, json());
  if (!value.is_string()) return WrongField(field + "." + name, "a string");
  return value.get<std::string>();
}

Result<ToldContent> PartsReader::Read(const json& content,
                                      const std::string& field) {
  if (content.is_string() || content.is_null()) {
    return ToldContent{.text = content};
  }
  if (!content.is_array() && is_asked()) {
    return WrongField(field, "a string or a list of parts");
  }
  if (!content.is_array() && !content.is_object()) {
    LeaveOut("");
    return ToldContent();
  }
  // A part alone is a list of one.
  if (content.is_object()) return Read(json::array({content}), field);
  PartsText parts;
  for (size_t i = 0; i < content.size(); ++i) {
    RETURN_IF_ERROR(Add(content[i], fmt::format("{}[{}]", field, i), parts));
  }
  return Told(std::move(parts));
}

Status PartsReader::Add(const json& part, const std::string& field,
                        PartsText& parts) {
  const json meant = is_asked() ? part : AsMeant(part);
  const std::string type = TypeIn(meant);
  const Result<OptionalText> read = ReadPart(meant, field);
  if (!read.ok() && is_asked()) return read.error();
  if (!read.ok()) LeaveOut(type);
  const OptionalText piece = read.ok() ? *read : std::nullopt;
  if (!piece) {
    if (parts.untold_field.empty()) parts.untold_field = field;
    // A text that is missing is no kind that could not be told.
    const bool is_named = !type.empty() && !IsOf(kTextTypes, type);
    if (is_named) parts.untold += "[" + type + "]";
    return Ok{};
  }
  const bool is_block = !IsOf(kTextTypes, type) && type != kRefusal;
  const bool apart = is_block || parts.ends_block;
  const bool needs_line =
      apart && !parts.text.empty() && !parts.text.ends_with('\n');
  parts.text += (needs_line ? "\n" : "") + *piece;
  parts.any_told = true;
  parts.ends_block = is_block;
  return Ok{};
}

ToldContent PartsReader::Told(PartsText parts) {
  if (parts.any_told || parts.untold_field.empty()) {
    return {.text = std::move(parts.text)};
  }
  return {.text = std::move(parts.untold),
          .untold_field = std::move(parts.untold_field)};
}

Result<std::optional<std::string>> PartsReader::ReadPart(
    const json& part, const std::string& field) {
  const std::string name = TypeIn(part);
  if (name.empty()) {
    return WrongField(field + ".type", "a string, \"text\" for one");
  }
  const char* member = IsOf(kTextTypes, name)     ? "text"
                       : name == kRefusal         ? kRefusal
                       : name == "tool_reference" ? "tool_name"
                                                  : nullptr;
  if (member != nullptr) {
    ASSIGN_OR_RETURN(std::string text, StringIn(part, field, member));
    return OptionalText(std::move(text));
  }
  OptionalText text;
  if (name == "document") {
    ASSIGN_OR_RETURN(text, ReadDocument(part, field));
  } else if (name == "search_result") {
    ASSIGN_OR_RETURN(text, ReadSearchResult(part, field));
  } else if (name == "web_search_result") {
    text = ReadFoundPage(part);
  } else if (name == "compaction" && part.contains("content") &&
             part["content"].is_string()) {
    // Anthropic's summary of what was said before it.
    text = part["content"].get<std::string>();
  }
  if (!text) LeaveOut(name);
  return text;
}

// Of its sources text and content are told; others are bytes, or elsewhere.
Result<std::optional<std::string>> PartsReader::ReadDocument(
    const json& part, const std::string& field) {
  const json source = part.value("source", json());
  if (!source.is_object()) return WrongField(field + ".source", "an object");
  const json type = source.value("type", json());
  ToldContent told;
  if (type == "text") {
    ASSIGN_OR_RETURN(told.text, StringIn(source, field + ".source", "data"));
  } else if (type == "content") {
    ASSIGN_OR_RETURN(
        told, Read(source.value("content", json()), field + ".source.content"));
  }
  if (!told.text.is_string() || !told.untold_field.empty()) {
    return OptionalText();
  }
  return OptionalText(Lines(
      {part.value("title", json()), part.value("context", json()), told.text}));
}

Result<std::optional<std::string>> PartsReader::ReadSearchResult(
    const json& part, const std::string& field) {
  ASSIGN_OR_RETURN(const ToldContent told,
                   Read(part.value("content", json()), field + ".content"));
  if (!told.untold_field.empty()) return OptionalText();
  return OptionalText(Lines(
      {part.value("title", json()), part.value("source", json()), told.text}));
}

// What it says is for Anthropic's servers alone to read.
std::optional<std::string> PartsReader::ReadFoundPage(const json& part) {
  if (part.contains("encrypted_content")) {
    LeaveOut("web_search_result.encrypted_content");
  }
  return Lines({part.value("title", json()), part.value("url", json()),
                part.value("page_age", json())});
}

Result<std::string> ResultText(const json& content, std::string_view written,
                               const std::string& field, PartsReader& reader) {
  const auto is_part = [](const json& part) { return !TypeIn(part).empty(); };
  const bool is_list = content.is_array() && !content.empty();
  const bool has_parts = is_list && std::ranges::any_of(content, is_part);
  const bool is_value = content.is_boolean() || content.is_number() ||
                        content.is_object() || (is_list && !has_parts);
  if (is_value) return std::string(written);
  ASSIGN_OR_RETURN(const ToldContent told, reader.Read(content, field));
  if (!told.text.is_string()) return std::string();
  return told.text.get<std::string>();
}

}  // namespace winnow
