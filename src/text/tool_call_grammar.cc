#include "text/tool_call_grammar.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

std::string Quoted(std::string_view text) { return Json(text).dump(); }

// In Lark: the marker as text, or as the token that it is.
std::string MarkerIn(const Tokenizer& tokenizer, std::string_view marker) {
  const std::optional<int32_t> id = tokenizer.IdOf(marker);
  if (!id || !tokenizer.IsSpecial(*id)) return Quoted(marker);
  return fmt::format("<[{}]>", *id);
}

// One value of a schema is an object whatever the schema leaves open.
Json ParametersOf(const CallableTool& tool) {
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
      fmt::format("{{\"name\": {}, \"{}\": ", Quoted(name), member);
  return fmt::format("{} {} \"}}\"", Quoted(begin), arguments);
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
      return {.between = R"("\n")",
              .call_begin = marker("<tool_call>") + R"( "\n")",
              .call_end = R"("\n" )" + marker("</tool_call>")};
    case ToolCallFormat::kBareObject:
      return {.between = R"("; ")"};
    case ToolCallFormat::kMarked:
      if (names_first) return {.call_begin = marker("[TOOL_CALLS]")};
      return {.begin = marker("[TOOL_CALLS]") + R"( "[")",
              .between = R"(", ")",
              .end = R"("]")"};
  }
  CHECK(false, "format={}", static_cast<int>(format));
}

}  // namespace

Grammar ToolCallGrammar(ToolCallFormat format,
                        std::span<const CallableTool> tools, bool one_call,
                        const Tokenizer& tokenizer) {
  CHECK(!tools.empty());
  constexpr std::string_view kArguments = "[ARGS]";
  const bool names_first = format == ToolCallFormat::kMarked &&
                           tokenizer.IdOf(kArguments).has_value();
  const Frame frame = FrameOf(format, names_first, tokenizer);
  Json schemas = Json::object();
  std::string calls;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string name = fmt::format("arguments_{}", i);
    schemas[name] = ParametersOf(tools[i]);
    calls += fmt::format("{}{} ", i == 0 ? "" : " | ", frame.call_begin);
    if (names_first) {
      calls += fmt::format("{} {} @{}", Quoted(tools[i].name),
                           MarkerIn(tokenizer, kArguments), name);
    } else {
      const bool bare = format == ToolCallFormat::kBareObject;
      calls += ObjectCall(tools[i].name, bare ? "parameters" : "arguments",
                          "@" + name);
    }
    calls += " " + frame.call_end;
  }
  const std::string more =
      one_call ? "" : fmt::format("({} call)*", frame.between);
  const std::string lark = fmt::format("start: {} call {} {}\ncall: {}\n",
                                       frame.begin, more, frame.end, calls);
  return {.kind = GrammarKind::kToolCalls,
          .source = Json({{"lark", lark}, {"schemas", schemas}}).dump()};
}

}  // namespace winnow
