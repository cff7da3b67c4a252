#include "text/tools/parameter_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/tools/parameter_list.h"
#include "text/tools/text_schema.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kValueEnd = "\n</parameter>\n";

Error Refused(const CallableTool& tool, const ToolParameter& parameter,
              std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "the template's calls cannot be held to the schema of {}, "
                   "parameter {}: {}",
                   tool.name, ShownJson(parameter.name), what);
}

// The name of the rule of a parameter.
std::string ValueName(size_t tool, size_t parameter) {
  return fmt::format("value_{}_{}", tool, parameter);
}

// A value of the parameter's schema as JSON. References are looked up from the
// root, which the schema becomes.
Result<std::string> JsonValue(const ParameterList& list,
                              const std::string& name,
                              const ToolParameter& parameter,
                              CallGrammar& grammar) {
  Json schema = parameter.schema;
  std::string text = schema.dump();
  if (schema.is_object() && text.find("\"$ref\"") != std::string::npos) {
    for (const auto& [holder, schemas] : list.definitions.items()) {
      if (!schema.contains(holder)) schema[holder] = schemas;
    }
    text = schema.dump();
  }
  if (text.size() > grammar.num_bytes_left) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "the parameters' schemas, each with the definitions that "
                     "it names, are too large for a grammar");
  }
  grammar.num_bytes_left -= text.size();
  grammar.schemas[name] = std::move(schema);
  return "@" + name;
}

// Any text of the bounds that does not end the value, and its end.
std::string AnyText(const TextSchema& text) {
  const std::string most =
      text.max_length ? std::to_string(*text.max_length) : "";
  const std::string length =
      text.min_length == 0 && !text.max_length
          ? "*"
          : fmt::format("{{{},{}}}", text.min_length, most);
  return fmt::format(R"((/(?s:.{})/ & ~/(?s:.*)<\/parameter>(?s:.*)/) {})",
                     length, QuotedLark(kValueEnd));
}

// A string stands as it is, all else as JSON.
std::string TextOf(const Json& constant) {
  return constant.is_string() ? constant.get<std::string>() : constant.dump();
}

// The constants that are read as what they are; empty: none is.
std::string Choices(const CallableTool& tool, const ToolParameter& parameter,
                    const ParameterTypes& types,
                    const std::vector<Json>& constants) {
  std::string choices;
  for (const Json& constant : constants) {
    const std::string text = TextOf(constant);
    const std::string read = types.JsonOf(tool.name, parameter.name, text);
    if (text.find("</parameter>") != std::string::npos ||
        Json::parse(read, nullptr, /*allow_exceptions=*/false) != constant) {
      continue;
    }
    choices += choices.empty() ? "" : " | ";
    choices += QuotedLark(text + std::string(kValueEnd));
  }
  return choices;
}

// As names of what is not followed begin.
std::string PlaceOf(const CallableTool& tool, const ToolParameter& parameter) {
  return tool.name + ".properties." + parameter.name;
}

// A value that may be a string, and its end.
std::string TextValue(const CallableTool& tool, const ParameterList& list,
                      const ToolParameter& parameter,
                      const ParameterTypes& types, CallGrammar& grammar) {
  const std::string place = PlaceOf(tool, parameter);
  const Result<TextSchema> text =
      TextSchemaOf(parameter.schema, list.definitions);
  if (!text.ok()) {
    grammar.unheld.push_back(place);
    return AnyText({});
  }
  for (const std::string& keyword : text->unheld) {
    grammar.unheld.push_back(place + "." + keyword);
  }
  if (text->any_text) return AnyText(*text);
  std::string choices = Choices(tool, parameter, types, text->constants);
  if (choices.empty()) {
    grammar.unheld.push_back(place);
    return AnyText({});
  }
  return choices;
}

// The rule of a value, with its end.
Result<std::string> TagValue(const CallableTool& tool,
                             const ParameterList& list, size_t number,
                             size_t place, const ParameterTypes& types,
                             CallGrammar& grammar) {
  const ToolParameter& parameter = list.parameters[place];
  const std::string name = ValueName(number, place);
  if (!types.MayBeString(tool.name, parameter.name)) {
    ASSIGN_OR_RETURN(const std::string value,
                     JsonValue(list, "schema_" + name, parameter, grammar));
    grammar.rules +=
        fmt::format("{}: {} {}\n", name, value, QuotedLark(kValueEnd));
    return name;
  }
  // In capitals: one lexeme, whatever it is made of.
  const std::string lexeme = fmt::format("VALUE_{}_{}", number, place);
  grammar.rules +=
      fmt::format("{}: {}\n{}: {}\n", name, lexeme, lexeme,
                  TextValue(tool, list, parameter, types, grammar));
  return name;
}

bool IsTagName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxCallNameBytes &&
         name.find_first_of("<>\n") == std::string_view::npos;
}

bool IsKeyword(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return IsCallNameByte(c) || static_cast<unsigned char>(c) >= 0x80;
  });
}

// The list of a tool's parameters that the form can name.
Result<ParameterList> NamedParameters(const CallableTool& tool,
                                      bool (*is_name)(std::string_view),
                                      std::string_view complaint,
                                      CallGrammar& grammar) {
  ASSIGN_OR_RETURN(ParameterList list, ParametersOf(tool));
  for (const std::string& keyword : list.unheld) {
    grammar.unheld.push_back(tool.name + "." + keyword);
  }
  for (const ToolParameter& parameter : list.parameters) {
    if (is_name(parameter.name)) continue;
    if (parameter.required) return Refused(tool, parameter, complaint);
    grammar.unheld.push_back(PlaceOf(tool, parameter));
  }
  std::erase_if(list.parameters, [is_name](const ToolParameter& parameter) {
    return !is_name(parameter.name);
  });
  return list;
}

}  // namespace

std::string QuotedLark(std::string_view text) {
  std::string quoted = Json(text).dump();
  // The one character that JSON leaves as it is and Lark does not take.
  for (size_t at = 0; (at = quoted.find('\x7f', at)) != std::string::npos;) {
    quoted.replace(at, 1, "\\u007f");
  }
  return quoted;
}

Result<std::string> ParameterTagCall(const CallableTool& tool, size_t number,
                                     const ParameterTypes& types,
                                     CallGrammar& grammar) {
  ASSIGN_OR_RETURN(
      const ParameterList list,
      NamedParameters(tool, IsTagName, "the name does not fit into a tag",
                      grammar));
  std::string call = QuotedLark("<function=" + tool.name + ">\n");
  for (size_t i = 0; i < list.parameters.size(); ++i) {
    const ToolParameter& parameter = list.parameters[i];
    ASSIGN_OR_RETURN(const std::string value,
                     TagValue(tool, list, number, i, types, grammar));
    const std::string written = fmt::format(
        "{} {}", QuotedLark("<parameter=" + parameter.name + ">\n"), value);
    call += parameter.required ? " " + written : " (" + written + ")?";
  }
  if (list.any) {
    grammar.rules += fmt::format("VALUE_{}: {}\n", number, AnyText({}));
    call += fmt::format(
        R"( ("<parameter=" /[A-Za-z_][A-Za-z0-9_]{{0,63}}/ ">\n" VALUE_{})*)",
        number);
  }
  return call + " " + QuotedLark("</function>");
}

Result<std::string> PythonCall(const CallableTool& tool, size_t number,
                               CallGrammar& grammar) {
  ASSIGN_OR_RETURN(
      const ParameterList list,
      NamedParameters(tool, IsKeyword, "the name is no keyword of Python",
                      grammar));
  const size_t num_parameters = list.parameters.size();
  // From a parameter on: as the first of a call's, and behind others.
  const auto first = [&](size_t i) {
    return fmt::format("first_{}_{}", number, i);
  };
  const auto next = [&](size_t i) {
    return fmt::format("next_{}_{}", number, i);
  };
  for (size_t i = 0; i < num_parameters; ++i) {
    const ToolParameter& parameter = list.parameters[i];
    ASSIGN_OR_RETURN(const std::string value,
                     JsonValue(list, ValueName(number, i), parameter, grammar));
    const std::string written =
        fmt::format("{} {}", QuotedLark(parameter.name + "="), value);
    const bool last = i + 1 == num_parameters;
    const std::string more = last ? "" : " " + next(i + 1);
    const char* const mark = parameter.required ? "" : "?";
    grammar.rules +=
        fmt::format("{}: (\",\" {}){}{}\n", next(i), written, mark, more);
    std::string begin = written + more;
    if (!parameter.required) {
      begin = last ? "(" + begin + ")?" : begin + " | " + first(i + 1);
    }
    grammar.rules += fmt::format("{}: {}\n", first(i), begin);
  }
  return fmt::format("{} {} \")\"", QuotedLark(tool.name + "("),
                     num_parameters == 0 ? "" : first(0));
}

}  // namespace winnow
