#include "text/tool_call_grammar.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/check.h"
#include "text/parameter_grammar.h"
#include "text/parameter_types.h"

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

// {"name": NAME, MEMBER: ARGUMENTS}
std::string ObjectCall(const std::string& name, std::string_view member,
                       const std::string& arguments) {
  const std::string begin =
      fmt::format("{{\"name\": {}, \"{}\": ", Json(name).dump(), member);
  return fmt::format("{} {} \"}}\"", QuotedLark(begin), arguments);
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
      return {.between = R"("\n")",
              .call_begin = marker(kCallTag) + R"( "\n")",
              .call_end = R"("\n" )" + marker(kCallEndTag)};
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

}  // namespace

Result<Grammar> ToolCallGrammar(ToolCallFormat format,
                                std::span<const CallableTool> tools,
                                bool one_call, const Tokenizer& tokenizer,
                                size_t max_bytes) {
  CHECK(!tools.empty());
  size_t num_bytes = 0;
  for (const CallableTool& tool : tools) {
    num_bytes += tool.parameters_json.size();
  }
  if (num_bytes > max_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "the schemas of the tools that must be called must be at "
                     "most {} bytes, are {}",
                     max_bytes, num_bytes);
  }
  const ParameterTypes types(tools);
  const CallWriter writer = {
      .format = format,
      .names_first = format == ToolCallFormat::kMarked &&
                     tokenizer.IdOf(kArgumentsMarker).has_value(),
      .tokenizer = tokenizer,
      .types = types};
  const Frame frame = FrameOf(format, writer.names_first, tokenizer);
  CallGrammar grammar = {.num_bytes_left = max_bytes};
  std::string calls;
  for (size_t i = 0; i < tools.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string call,
                     writer.Write(tools[i], i, grammar));
    calls += fmt::format("{}{} {} {}", i == 0 ? "" : " | ", frame.call_begin,
                         call, frame.call_end);
  }
  const std::string more =
      one_call ? "" : fmt::format("({} call)*", frame.between);
  const std::string lark =
      fmt::format("start: {} call {} {}\ncall: {}\n{}", frame.begin, more,
                  frame.end, calls, grammar.rules);
  return Grammar{
      .kind = GrammarKind::kToolCalls,
      .source = Json({{"lark", lark}, {"schemas", grammar.schemas}}).dump()};
}

}  // namespace winnow
