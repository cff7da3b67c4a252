#include "serve/request/request_grammar.h"

#include <algorithm>

#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr const char* kWhiteSpacePattern = "whitespace_pattern";
constexpr const char* kNoWhiteSpace = "disable_any_whitespace";

bool IsWhiteSpace(std::string_view name) {
  return name == kWhiteSpacePattern || name == kNoWhiteSpace;
}

constexpr std::string_view kAnyObject = R"({"type": "object"})";

Status SetGrammar(GrammarKind kind, std::string_view source,
                  const std::string& field, CompletionRequest& request) {
  if (request.grammar) {
    return WrongField(field, "absent beside " + request.grammar->field +
                                 ": an answer is held to one grammar");
  }
  request.grammar = AskedGrammar{
      .grammar = {.kind = kind, .source = std::string(source)}, .field = field};
  return Ok{};
}

// A schema, or the text of one.
Status SetSchema(const json& schema, std::string_view raw,
                 const std::string& field, CompletionRequest& request) {
  if (schema.is_string()) {
    return SetGrammar(GrammarKind::kJsonSchema, schema.get<std::string>(),
                      field, request);
  }
  if (!schema.is_object() && !schema.is_boolean()) {
    return WrongField(field, "a JSON schema");
  }
  return SetGrammar(GrammarKind::kJsonSchema, raw, field, request);
}

Status SetText(GrammarKind kind, const json& text, const std::string& field,
               CompletionRequest& request) {
  if (!text.is_string()) return WrongField(field, "a string");
  return SetGrammar(kind, text.get<std::string>(), field, request);
}

Status SetChoice(const json& choices, const std::string& field,
                 CompletionRequest& request) {
  const bool good = choices.is_array() && !choices.empty() &&
                    std::ranges::all_of(choices, [](const json& choice) {
                      return choice.is_string() &&
                             !choice.get_ref<const std::string&>().empty();
                    });
  if (!good) return WrongField(field, "a list of strings, none of them empty");
  return SetGrammar(GrammarKind::kChoice, choices.dump(), field, request);
}

// Whether it begins with a rule as llama.cpp writes them; Lark has none so.
bool IsGbnf(std::string_view grammar) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto skip = [&grammar](std::string_view some) {
    grammar.remove_prefix(
        std::min(grammar.find_first_not_of(some), grammar.size()));
  };
  skip(kSpace);
  while (grammar.starts_with('#')) {
    grammar.remove_prefix(std::min(grammar.find('\n'), grammar.size()));
    skip(kSpace);
  }
  grammar.remove_prefix(
      std::min(grammar.find_first_of(" \t:"), grammar.size()));
  skip(" \t");
  return grammar.starts_with("::=");
}

// One of vLLM's names for a kind of grammar.
Status SetNamed(std::string_view name, const json& value, std::string_view raw,
                const std::string& field, CompletionRequest& request) {
  if (name == "json") return SetSchema(value, raw, field, request);
  if (name == "regex") {
    return SetText(GrammarKind::kRegex, value, field, request);
  }
  if (name == "choice") return SetChoice(value, field, request);
  if (name == "grammar") {
    if (value.is_string() && IsGbnf(value.get_ref<const std::string&>())) {
      return WrongField(field,
                        "in Lark's syntax (start: ...): rules with ::= are "
                        "GBNF, which is not read");
    }
    return SetText(GrammarKind::kLark, value, field, request);
  }
  if (name == "json_object") {
    if (!value.is_boolean()) return WrongField(field, "true or false");
    if (!value.get<bool>()) return Ok{};
    return SetGrammar(GrammarKind::kJsonSchema, kAnyObject, field, request);
  }
  return WrongField(field,
                    "absent: json, json_object, regex, choice, grammar, "
                    "whitespace_pattern and disable_any_whitespace are known");
}

}  // namespace

Status ReadFormat(const json& format, std::string_view raw,
                  const std::string& field, bool nested,
                  CompletionRequest& request) {
  if (!format.is_object()) return WrongField(field, "an object");
  const json type = format.value("type", json());
  if (type == "text") return Ok{};
  if (type == "json_object") {
    return SetGrammar(GrammarKind::kJsonSchema, kAnyObject, field, request);
  }
  if (type != "json_schema") {
    return WrongField(field + ".type",
                      "\"text\", \"json_object\" or \"json_schema\"");
  }
  const std::string holder = nested ? field + ".json_schema" : field;
  const json described = nested ? format.value("json_schema", json()) : format;
  if (!described.is_object()) return WrongField(holder, "an object");
  const json strict = described.value("strict", json());
  if (!strict.is_null() && !strict.is_boolean()) {
    return WrongField(holder + ".strict", "true or false");
  }
  const json schema = described.value("schema", json());
  if (!schema.is_object()) return WrongField(holder + ".schema", "an object");
  const std::string_view written = nested ? MemberOf(raw, "json_schema") : raw;
  return SetSchema(schema, MemberOf(written, "schema"), holder + ".schema",
                   request);
}

namespace {

Status ReadAsked(const RequestBody& body, CompletionRequest& request) {
  const bool has_format = request.endpoint == Endpoint::kCompletions ||
                          request.endpoint == Endpoint::kChatCompletions;
  if (has_format && body.fields.Has("response_format")) {
    RETURN_IF_ERROR(ReadFormat(body.Value("response_format"),
                               MemberOf(body.text, "response_format"),
                               "response_format", /*nested=*/true, request));
  }
  for (const std::string_view name : {"json", "regex", "choice", "grammar"}) {
    const std::string field = "guided_" + std::string(name);
    if (!body.fields.Has(field)) continue;
    RETURN_IF_ERROR(SetNamed(name, body.Value(field.c_str()),
                             MemberOf(body.text, field), field, request));
  }
  if (!body.fields.Has("structured_outputs")) return Ok{};
  const json given = body.Value("structured_outputs");
  if (!given.is_object()) return WrongField("structured_outputs", "an object");
  const std::string_view raw = MemberOf(body.text, "structured_outputs");
  for (const auto& [name, value] : given.items()) {
    if (value.is_null() || IsWhiteSpace(name)) continue;
    RETURN_IF_ERROR(SetNamed(name, value, MemberOf(raw, name),
                             "structured_outputs." + name, request));
  }
  return Ok{};
}

// What stands between a value's tokens, and the field that says so.
struct AskedWhiteSpace {
  std::string field;
  std::string pattern;
};

// vLLM's guided_whitespace_pattern, and whitespace_pattern and
// disable_any_whitespace of structured_outputs, of which the latter counts.
Result<std::optional<AskedWhiteSpace>> ReadWhiteSpace(const RequestBody& body) {
  std::optional<AskedWhiteSpace> asked;
  constexpr const char* kGuided = "guided_whitespace_pattern";
  if (body.fields.Has(kGuided)) {
    ASSIGN_OR_RETURN(std::string pattern, body.fields.Text(kGuided));
    asked = AskedWhiteSpace{kGuided, std::move(pattern)};
  }
  if (!body.fields.Has("structured_outputs")) return asked;
  ASSIGN_OR_RETURN(const JsonFields given,
                   body.fields.Object("structured_outputs"));
  const std::string holder = "structured_outputs.";
  if (given.Has(kWhiteSpacePattern)) {
    ASSIGN_OR_RETURN(std::string pattern, given.Text(kWhiteSpacePattern));
    asked = AskedWhiteSpace{holder + kWhiteSpacePattern, std::move(pattern)};
  }
  ASSIGN_OR_RETURN(const bool none, given.Flag(kNoWhiteSpace, false));
  if (none) asked = AskedWhiteSpace{holder + kNoWhiteSpace, ""};
  return asked;
}

}  // namespace

Status ReadGrammar(const RequestBody& body, CompletionRequest& request) {
  RETURN_IF_ERROR(ReadAsked(body, request));
  ASSIGN_OR_RETURN(std::optional<AskedWhiteSpace> space, ReadWhiteSpace(body));
  if (request.grammar && !request.forced_tools.empty()) {
    request.ignored.push_back(request.grammar->field);
    request.grammar.reset();
  }
  if (request.grammar && !request.tools.empty()) {
    // Calls are within the grammar too, and so are their arguments.
    std::erase(request.ignored, "strict");
  }
  if (!space) return Ok{};
  if (request.grammar &&
      request.grammar->grammar.kind == GrammarKind::kJsonSchema) {
    request.grammar->grammar.white_space = std::move(space->pattern);
    request.grammar->white_space_field = std::move(space->field);
  } else {
    request.ignored.push_back(std::move(space->field));
  }
  return Ok{};
}

}  // namespace winnow
