#include "serve/request/request_grammar.h"

#include <gtest/gtest.h>

#include "serve/request/api_error.h"
#include "serve/request/request_case.h"

namespace winnow {
namespace {

Result<CompletionRequest> ParseConstrained(Endpoint endpoint,
                                           const std::string& more) {
  RequestRules rules;
  rules.vocab_size = 100;
  const std::string begin =
      endpoint == Endpoint::kCompletions ? R"("prompt":"x")"
      : endpoint == Endpoint::kResponses ? R"("input":"x")"
                                         : R"("messages":[{"role":"user",)"
                                           R"("content":"x"}],"max_tokens":9)";
  return ParseCompletionRequest("{" + begin + "," + more + "}", endpoint,
                                rules);
}

// What a request asks for: kind, source and field in one line.
std::string Asked(Endpoint endpoint, const std::string& more) {
  const auto parsed = ParseConstrained(endpoint, more);
  if (!parsed.ok()) return parsed.error().message;
  if (!parsed->grammar) return "nothing";
  constexpr std::string_view kKinds[] = {"schema", "regex", "choice", "lark",
                                         "calls"};
  const Grammar& grammar = parsed->grammar->grammar;
  return fmt::format("{} {} {}", parsed->grammar->field,
                     kKinds[static_cast<size_t>(grammar.kind)], grammar.source);
}

// The field that is refused; "" where none is.
std::string Refused(const std::string& more, Endpoint endpoint = kChat) {
  const auto parsed = ParseConstrained(endpoint, more);
  return parsed.ok() ? "" : FieldNamedIn(parsed.error().message);
}

// In the client's own order of names and spelling of numbers.
TEST(RequestGrammarTest, ReadsEveryFormOfAGrammar) {
  const std::string schema = R"({"z": 1.0, "a": 2})";
  for (const Endpoint endpoint : {kChat, Endpoint::kCompletions}) {
    EXPECT_EQ(Asked(endpoint, R"("response_format":{"type":"text"})"),
              "nothing");
    EXPECT_EQ(Asked(endpoint, R"("response_format":{"type":"json_object"})"),
              R"(response_format schema {"type": "object"})");
    EXPECT_EQ(
        Asked(endpoint, R"("response_format":{"type":"json_schema",)"
                        R"("json_schema":{"name":"n","strict":true,"schema":)" +
                            schema + "}}"),
        "response_format.json_schema.schema schema " + schema);
  }
  for (const Endpoint endpoint : {kChat, Endpoint::kCompletions,
                                  Endpoint::kResponses, Endpoint::kMessages}) {
    EXPECT_EQ(Asked(endpoint, "\"guided_json\":" + schema),
              "guided_json schema " + schema);
    EXPECT_EQ(Asked(endpoint, R"("guided_json":"{\"b\": 1}")"),
              R"(guided_json schema {"b": 1})");
    EXPECT_EQ(Asked(endpoint, R"("guided_regex":"a\\d+")"),
              R"(guided_regex regex a\d+)");
    EXPECT_EQ(Asked(endpoint, R"("guided_choice":["b","a"])"),
              R"(guided_choice choice ["b","a"])");
    EXPECT_EQ(Asked(endpoint, R"("guided_grammar":"start: \"a\"")"),
              R"(guided_grammar lark start: "a")");
    EXPECT_EQ(Asked(endpoint, "\"structured_outputs\":{\"json\":" + schema +
                                  ",\"regex\":null}"),
              "structured_outputs.json schema " + schema);
    EXPECT_EQ(Asked(endpoint, R"("structured_outputs":{"json_object":true})"),
              R"(structured_outputs.json_object schema {"type": "object"})");
    EXPECT_EQ(Asked(endpoint, R"("structured_outputs":{"json_object":false})"),
              "nothing");
  }
  const std::string format =
      R"({"type":"json_schema","name":"n","schema":)" + schema + "}";
  EXPECT_EQ(Asked(Endpoint::kResponses, "\"text\":{\"format\":" + format + "}"),
            "text.format.schema schema " + schema);
  EXPECT_EQ(Asked(Endpoint::kMessages,
                  "\"output_config\":{\"format\":" + format + "}"),
            "output_config.format.schema schema " + schema);
  EXPECT_EQ(Asked(Endpoint::kMessages, "\"output_format\":" + format),
            "output_format.schema schema " + schema);
}

TEST(RequestGrammarTest, NamesWhatIsWrong) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"response_format", "5"},
           {"response_format.type", R"({"type":"xml"})"},
           {"response_format.json_schema", R"({"type":"json_schema"})"},
           {"response_format.json_schema.schema",
            R"({"type":"json_schema","json_schema":{"name":"a"}})"},
           {"response_format.json_schema.strict",
            R"({"type":"json_schema","json_schema":{"strict":1,"schema":{}}})"},
           {"guided_json", "5"},
           {"guided_regex", "5"},
           {"guided_choice", "[]"},
           {"guided_choice", R"(["a",""])"},
           {"guided_choice", R"(["a",5])"},
           {"guided_grammar", "[]"},
           {"guided_grammar", R"("# GBNF\nroot ::= \"yes\" | \"no\"")"},
           {"structured_outputs", "5"},
           {"structured_outputs.structural_tag", R"({"structural_tag":"x"})"},
           {"structured_outputs.json_object", R"({"json_object":5})"}}) {
    const std::string name = field.substr(0, field.find('.'));
    EXPECT_EQ(Refused(fmt::format("\"{}\":{}", name, value)), field) << value;
  }
  EXPECT_EQ(Refused(R"("output_config":{"effort":5})", Endpoint::kMessages),
            "output_config.effort");
}

TEST(RequestGrammarTest, AnAnswerIsHeldToOneGrammar) {
  EXPECT_EQ(Refused(R"("guided_regex":"a","guided_json":{})"), "guided_regex");
  EXPECT_EQ(Refused(R"("structured_outputs":{"regex":"a","json":{}})"),
            "structured_outputs.regex");
}

// The answer calls a tool or is within the grammar; where it must call one, the
// grammar changes nothing.
TEST(RequestGrammarTest, ToolsMayStandBesideAGrammar) {
  const std::string format =
      R"({"type":"json_schema","name":"n","schema":{"type":"object"}})";
  const std::string nested =
      R"({"type":"json_schema","json_schema":{"schema":{"type":"object"}}})";
  const std::string plain =
      R"("tools":[{"type":"function","name":"f","strict":true}],)";
  struct Case {
    Endpoint endpoint;
    std::string tools, grammar, field, required, none;
  };
  const std::string required = R"("tool_choice":"required")";
  const std::string none = R"("tool_choice":"none")";
  for (const Case& each : std::vector<Case>{
           {kChat,
            R"("tools":[{"type":"function","function":{"name":"f",)"
            R"("strict":true}}],)",
            "\"response_format\":" + nested,
            "response_format.json_schema.schema", required, none},
           {Endpoint::kResponses, plain, "\"text\":{\"format\":" + format + "}",
            "text.format.schema", required, none},
           {Endpoint::kMessages, R"("tools":[{"name":"f"}],)",
            "\"output_format\":" + format, "output_format.schema",
            R"("tool_choice":{"type":"any"})",
            R"("tool_choice":{"type":"none"})"},
           {Endpoint::kMessages, R"("tools":[{"name":"f"}],)",
            R"("guided_regex":"a")", "guided_regex",
            R"("tool_choice":{"type":"tool","name":"f"})",
            R"("tool_choice":{"type":"none"})"}}) {
    const std::string both = each.tools + each.grammar;
    const auto free = ParseConstrained(each.endpoint, both);
    ASSERT_TRUE(free.ok()) << free.error().message;
    ASSERT_TRUE(free->grammar.has_value());
    EXPECT_EQ(free->grammar->field, each.field);
    EXPECT_EQ(free->tools.size(), 1u);
    EXPECT_TRUE(free->forced_tools.empty());
    EXPECT_EQ(free->ignored, std::vector<std::string>());
    const auto forced =
        ParseConstrained(each.endpoint, both + "," + each.required);
    ASSERT_TRUE(forced.ok()) << forced.error().message;
    EXPECT_FALSE(forced->grammar.has_value());
    EXPECT_EQ(forced->forced_tools.size(), 1u);
    EXPECT_EQ(forced->ignored, std::vector{each.field});
    const auto unused = ParseConstrained(each.endpoint, both + "," + each.none);
    ASSERT_TRUE(unused.ok()) << unused.error().message;
    EXPECT_TRUE(unused->grammar.has_value());
    EXPECT_TRUE(unused->tools.empty());
  }
}

// What stands between the tokens of a JSON answer, and what asked for it.
TEST(RequestGrammarTest, ReadsWhiteSpace) {
  const std::string schema = R"("guided_json":{},)";
  for (const auto& [more, field, pattern] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {R"("guided_whitespace_pattern":"[ ]?")",
            "guided_whitespace_pattern", "[ ]?"},
           {R"("structured_outputs":{"whitespace_pattern":" "})",
            "structured_outputs.whitespace_pattern", " "},
           {R"("structured_outputs":{"disable_any_whitespace":true,)"
            R"("whitespace_pattern":null})",
            "structured_outputs.disable_any_whitespace", ""}}) {
    const auto parsed = ParseConstrained(kChat, schema + more);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ASSERT_TRUE(parsed->grammar.has_value());
    EXPECT_EQ(parsed->grammar->grammar.white_space, pattern);
    EXPECT_EQ(parsed->grammar->white_space_field, field);
    // Without a JSON answer it changes nothing.
    for (const std::string other : {"", R"("guided_regex":"a",)"}) {
      const auto unused = ParseConstrained(kChat, other + more);
      ASSERT_TRUE(unused.ok()) << unused.error().message;
      EXPECT_EQ(unused->ignored, std::vector{field});
    }
  }
  const auto usual = ParseConstrained(
      kChat,
      schema + R"("structured_outputs":{"disable_any_whitespace":false})");
  ASSERT_TRUE(usual.ok()) << usual.error().message;
  EXPECT_EQ(usual->grammar->grammar.white_space, std::nullopt);
  EXPECT_EQ(Refused(schema + R"("guided_whitespace_pattern":5)"),
            "guided_whitespace_pattern");
  EXPECT_EQ(
      Refused(schema + R"("structured_outputs":{"whitespace_pattern":5})"),
      "structured_outputs.whitespace_pattern");
  EXPECT_EQ(
      Refused(schema + R"("structured_outputs":{"disable_any_whitespace":5})"),
      "structured_outputs.disable_any_whitespace");
}

}  // namespace
}  // namespace winnow
