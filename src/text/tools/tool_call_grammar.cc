#include "text/tools/tool_call_grammar.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/check.h"
#include "text/grammar/held_schema.h"
#include "text/tools/parameter_grammar.h"
#include "text/tools/parameter_types.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// In Lark: the marker as text, or as the token that it is.
std::string MarkerIn(const Tokenizer& tokenizer, std::string_view marker) {
  const std::optional<int32_t> id = tokenizer.IdOf(marker);
  if (!id || !tokenizer.IsSpecial(*id)) return QuotedLark(marker);
  return fmt::format("<[{}]>", *id);
}

// One value of a schema is an object whatever the schema leaves open.
Json SchemaOf(const CallableTool& tool) {
  Json schema = tool.parameters_json.empty()
                    ? Json::object()
                    : Json::parse(tool.parameters_json);
  if (schema.is_object() && !schema.contains("type")) schema["type"] = "object";
  return schema;
}

// {"name": NAME, MEMBER: ARGUMENTS}, with a space between where the model puts
// one: in this it follows its own habit, not a template's.
std::string ObjectCall(const std::string& name, std::string_view member,
                       const std::string& arguments) {
  std::string plain;
  for (const char c : name) plain += c == '.' ? "\\." : std::string(1, c);
  return fmt::format(R"(/\{{ ?"name": ?"{}", ?"{}": ?/ {} / ?\}}/)", plain,
                     member, arguments);
}

// What all calls have around them and between them, in Lark.
struct Frame {
  std::string begin = {}, between = {}, end = {};
  std::string call_begin = {}, call_end = {};
};

Frame FrameOf(ToolCallFormat format, bool names_first,
              const Tokenizer& tokenizer) {
  const auto marker = [&tokenizer](std::string_view text) {
    return MarkerIn(tokenizer, text);
  };
  switch (format) {
    case ToolCallFormat::kTagged:
    case ToolCallFormat::kParameterTags:
      // With line ends as templates write them, or without.
      return {.between = R"("\n"?)",
              .call_begin = marker(kCallTag) + R"( "\n"?)",
              .call_end = R"("\n"? )" + marker(kCallEndTag)};
    case ToolCallFormat::kBareObject:
      return {.between = R"("; ")"};
    case ToolCallFormat::kMarked:
      if (names_first) return {.call_begin = marker(kListMarker)};
      return {.begin = marker(kListMarker) + R"( "[")",
              .between = R"(", ")",
              .end = R"("]")"};
    case ToolCallFormat::kPythonCalls:
      return {.begin = marker(kPythonMarker) + R"( "\n```python\n")",
              .between = R"("\n")",
              .end = R"("\n```\n" )" + marker(kPythonEndMarker)};
  }
  CHECK(false, "format={}", static_cast<int>(format));
}

// What a call of one tool is written as.
struct CallWriter {
  ToolCallFormat format;
  bool names_first;  // of kMarked
  const Tokenizer& tokenizer;
  const ParameterTypes& types;

  Result<std::string> Write(const CallableTool& tool, size_t number,
                            CallGrammar& grammar) const {
    if (format == ToolCallFormat::kParameterTags) {
      return ParameterTagCall(tool, number, types, grammar);
    }
    if (format == ToolCallFormat::kPythonCalls) {
      return PythonCall(tool, number, grammar);
    }
    const std::string name = fmt::format("arguments_{}", number);
    grammar.schemas[name] = SchemaOf(tool);
    if (names_first) {
      return fmt::format("{} {} @{}", QuotedLark(tool.name),
                         MarkerIn(tokenizer, kArgumentsMarker), name);
    }
    const bool bare = format == ToolCallFormat::kBareObject;
    return ObjectCall(tool.name, bare ? "parameters" : "arguments", "@" + name);
  }
};

// The tools with as much of their schemas as can be followed.
Result<std::vector<CallableTool>> HeldTools(std::span<const CallableTool> tools,
                                            std::vector<std::string>& unheld) {
  std::vector<CallableTool> held(tools.begin(), tools.end());
  for (CallableTool& tool : held) {
    if (tool.parameters_json.empty()) continue;
    Result<HeldSchema> schema =
        HoldSchema(tool.parameters_json, UnheldKeywords::kFitted);
    if (!schema.ok()) {
      return MakeError(schema.error().code, "the schema of {}: {}", tool.name,
                       schema.error().message);
    }
    tool.parameters_json = std::move(schema->json);
    for (const std::string& place : schema->unheld) {
      unheld.push_back(place.empty() ? tool.name : tool.name + "." + place);
    }
  }
  return held;
}

// As one schema, so that they share their first brace: of two grammars that
// begin with it, the one that goes on with more text would win.
Grammar BareObjectOr(std::span<const CallableTool> tools,
                     const Grammar& otherwise) {
  // References of each are its own.
  const auto part = [](Json schema, size_t number) {
    if (!schema.is_object()) return schema;
    schema.erase("$schema");
    schema["$id"] = fmt::format("urn:winnow:{}", number);
    return schema;
  };
  Json either = Json::array({part(Json::parse(otherwise.source), 0)});
  for (const CallableTool& tool : tools) {
    const Json name = {{"const", tool.name}};
    const Json properties = {
        {"name", name}, {"parameters", part(SchemaOf(tool), either.size())}};
    either.push_back({{"type", "object"},
                      {"properties", properties},
                      {"required", {"name", "parameters"}},
                      {"additionalProperties", false}});
  }
  return {.kind = GrammarKind::kJsonSchema,
          .source = Json({{"anyOf", either}}).dump(),
          .white_space = otherwise.white_space};
}

int32_t NumberOfKind(GrammarKind kind) { return static_cast<int32_t>(kind); }

Status CheckBytes(std::span<const CallableTool> tools, size_t max_bytes) {
  size_t num_bytes = 0;
  for (const CallableTool& tool : tools) {
    num_bytes += tool.parameters_json.size();
  }
  if (num_bytes <= max_bytes) return Ok{};
  return MakeError(ErrorCode::kResourceExhausted,
                   "the schemas of the tools that must be called must be at "
                   "most {} bytes, are {}",
                   max_bytes, num_bytes);
}

}  // namespace

Result<HeldCalls> ToolCallGrammar(ToolCallFormat format,
                                  std::span<const CallableTool> tools,
                                  bool one_call, const Tokenizer& tokenizer,
                                  size_t max_bytes, const Grammar* otherwise) {
  CHECK(!tools.empty());
  RETURN_IF_ERROR(CheckBytes(tools, max_bytes));
  CallGrammar grammar = {.num_bytes_left = max_bytes};
  ASSIGN_OR_RETURN(const std::vector<CallableTool> held,
                   HeldTools(tools, grammar.unheld));
  if (otherwise != nullptr && format == ToolCallFormat::kBareObject &&
      otherwise->kind == GrammarKind::kJsonSchema) {
    return HeldCalls{.grammar = BareObjectOr(held, *otherwise),
                     .unheld = std::move(grammar.unheld)};
  }
  const ParameterTypes types(held);
  const CallWriter writer = {
      .format = format,
      .names_first = format == ToolCallFormat::kMarked &&
                     tokenizer.IdOf(kArgumentsMarker).has_value(),
      .tokenizer = tokenizer,
      .types = types};
  const Frame frame = FrameOf(format, writer.names_first, tokenizer);
  std::string calls;
  for (size_t i = 0; i < held.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string call, writer.Write(held[i], i, grammar));
    calls += fmt::format("{}{} {} {}", i == 0 ? "" : " | ", frame.call_begin,
                         call, frame.call_end);
  }
  const std::string more =
      one_call ? "" : fmt::format("({} call)*", frame.between);
  Json source = {
      {"lark", fmt::format("start: {}calls\ncalls: {} call {} {}\ncall: {}\n{}",
                           otherwise == nullptr ? "" : "@otherwise | ",
                           frame.begin, more, frame.end, calls, grammar.rules)},
      {"schemas", grammar.schemas}};
  if (otherwise != nullptr) {
    source["otherwise"] = {{"kind", NumberOfKind(otherwise->kind)},
                           {"source", otherwise->source}};
  }
  return HeldCalls{
      .grammar = {.kind = GrammarKind::kToolCalls,
                  .source = source.dump(),
                  .white_space = otherwise == nullptr ? std::nullopt
                                                      : otherwise->white_space},
      .unheld = std::move(grammar.unheld)};
}

}  // namespace winnow
