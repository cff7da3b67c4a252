#include "text/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace winnow {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kHello =
    R"([{"role": "user", "content": " Hello "}])";

ChatTemplate MakeTemplate(const std::string& jinja,
                          const std::optional<std::string>& config = {}) {
  return ChatTemplate::FromText("dir", jinja, config).value();
}

std::string Text(const std::string& jinja, std::string_view extra = "{}") {
  const auto text = MakeTemplate(jinja).Render({kHello, extra});
  return text.ok() ? *text : "error: " + text.error().message;
}

TEST(ChatTemplateTest, ReadsMessagesPromptAndExtra) {
  const std::string jinja =
      "{% for m in messages %}{{ m.role }}:{{ m['content'].strip() }};"
      "{% endfor %}{{ add_generation_prompt }} {{ tools is none }} {{ x }}";
  EXPECT_EQ(Text(jinja, R"({"x": [1, 2.5, "a", null]})"),
            "user:Hello;True True [1, 2.5, 'a', None]");
  EXPECT_EQ(
      MakeTemplate(jinja).Render({"[]", R"({"tools": []})", 0, false}).value(),
      "False False ");
}

TEST(ChatTemplateTest, TakesSpecialTokensFromTheConfig) {
  const std::string config =
      R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
          "pad_token": null})";
  const auto text =
      MakeTemplate("{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}",
                   config)
          .Render({kHello});
  EXPECT_EQ(text.value(), "<s>|</s>|False");
  const auto asked = MakeTemplate("{{ bos_token }}|{{ eos_token }}", config)
                         .Render({kHello, R"({"bos_token": "<x>"})"});
  EXPECT_EQ(asked.value(), "<x>|</s>");
}

TEST(ChatTemplateTest, FindsTheTemplate) {
  const auto rendered = [](const std::optional<std::string>& jinja,
                           const std::optional<std::string>& config) {
    const auto found = ChatTemplate::FromText("dir", jinja, config);
    return found.ok() ? found->Render({"[]"}).value() : found.error().message;
  };
  EXPECT_EQ(rendered("a", R"({"chat_template": "b"})"), "a");
  EXPECT_EQ(rendered({}, R"({"chat_template": "b"})"), "b");
  EXPECT_EQ(rendered({}, R"({"chat_template": [
      {"name": "tool_use", "template": "t"},
      {"name": "default", "template": "d"}]})"),
            "d");
  EXPECT_EQ(rendered({}, R"({"chat_template": [{"name": "rag"}]})"),
            "dir/tokenizer_config.json: chat_template: must have a template "
            "named \"default\"");
  EXPECT_EQ(rendered({}, R"({"chat_template": 3})"),
            "dir/tokenizer_config.json: chat_template: must be a string or a "
            "list of {name, template}");
  EXPECT_TRUE(rendered({}, "{").starts_with("dir/tokenizer_config.json: "));
  const std::string none =
      "dir: no chat template (looked for chat_template.jinja and "
      "\"chat_template\" in tokenizer_config.json)";
  EXPECT_EQ(rendered({}, {}), none);
  EXPECT_EQ(rendered({}, "{}"), none);
}

TEST(ChatTemplateTest, ToolsMayHaveATemplateOfTheirOwn) {
  const auto both = ChatTemplate::FromText("dir", {}, R"({"chat_template": [
      {"name": "tool_use", "template": "t{{ tools | length }}"},
      {"name": "default", "template": "d"}]})");
  EXPECT_EQ(both->Render({"[]", R"({"tools": [{}]})"}).value(), "t1");
  EXPECT_EQ(both->Render({"[]", R"({"tools": null})"}).value(), "d");
  EXPECT_EQ(both->ToolSource(), "t{{ tools | length }}");
  EXPECT_EQ(MakeTemplate("{{ tools }}").ToolSource(), "{{ tools }}");
}

TEST(ChatTemplateTest, LoadsAFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("chat_template_test_{}", getpid());
  std::filesystem::create_directories(folder);
  const auto none = ChatTemplate::Load(folder);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(WriteFile(folder / "chat_template.jinja", "hi\n").ok());
  EXPECT_EQ(ChatTemplate::Load(folder).value().Render({"[]"}).value(), "hi");
  std::filesystem::remove_all(folder);
}

// As in transformers: trim_blocks and lstrip_blocks.
TEST(ChatTemplateTest, TagsOnLinesOfTheirOwnLeaveNoTrace) {
  EXPECT_EQ(Text("a\n  {% if true %}\n  b\n\t{% endif %}\n\nc"), "a\n  b\n\nc");
  EXPECT_EQ(Text("a {% if true %} b {% endif %} c\n"), "a  b  c");
}

TEST(ChatTemplateTest, SpeaksPython) {
  EXPECT_EQ(Text("{{ 'a<b>c'.split('<')[-1].removesuffix('c') }}"), "b>");
  EXPECT_EQ(Text("{{ 'k=v=w'.partition('=') | join('|') }}"), "k|=|v=w");
  EXPECT_EQ(Text("{{ 'k=v=w'.rpartition('=') | join('|') }}"), "k=v|=|w");
  EXPECT_EQ(Text("{{ 'a.b.c'.rsplit('.', 1) | join('|') }}"), "a.b|c");
  EXPECT_EQ(Text("{{ 'x'.removeprefix('y') }}"), "x");
  // A method goes before an item of its name, as JSON schemas need.
  EXPECT_EQ(Text("{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}",
                 R"({"x": {"type": "array", "items": 3}})"),
            "type=array;items=3;");
  EXPECT_EQ(Text("{%- set ns = namespace(n=0) -%}"
                 "{% for i in range(9) %}{% if i == 2 %}{% continue %}"
                 "{% elif i == 5 %}{% break %}{% endif %}"
                 "{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}"),
            "8");
}

TEST(ChatTemplateTest, ToleratesGenerationTags) {
  EXPECT_EQ(Text("a {%- generation -%} b{% if true %}c{% endif %} "
                 "{%- endgeneration %}d {{ 'generation' }}"),
            "abcd generation");
}

TEST(ChatTemplateTest, WritesJsonAsPythonDoes) {
  const std::string_view extra =
      R"({"x": {"b": [1, -2.0, 1e22, 1e-7, 0.0001], "a": "<\u00e9\"\n\u0001",
                "e": [], "f": {}}})";
  EXPECT_EQ(Text("{{ x | tojson }}", extra),
            "{\"b\": [1, -2.0, 1e+22, 1e-07, 0.0001], "
            "\"a\": \"<\u00e9\\\"\\n\\u0001\", \"e\": [], \"f\": {}}");
  EXPECT_EQ(
      Text("{{ x.e | tojson }}{{ {'k': [1]} | tojson(indent=2) }}", extra),
      "[]{\n  \"k\": [\n    1\n  ]\n}");
  EXPECT_EQ(Text("{{ {'b': 1, 'a': '\u00e9\U0001f600'} | "
                 "tojson(sort_keys=true, ensure_ascii=true) }}"),
            "{\"a\": \"\\u00e9\\ud83d\\ude00\", \"b\": 1}");
  EXPECT_EQ(Text("{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}"),
            "[1,{\"a\":2}]");
}

TEST(ChatTemplateTest, ShowsTheClockItIsGiven) {
  const int64_t noon_unix_s = 1'000'000'000;  // 2001-09-09, in any zone.
  const auto text = MakeTemplate("{{ strftime_now('%d %b %Y') }}")
                        .Render({kHello, "{}", noon_unix_s});
  EXPECT_EQ(text.value(), "09 Sep 2001");
}

TEST(ChatTemplateTest, NamesTheLineOfWhatGoesWrong) {
  const auto broken = ChatTemplate::FromText("dir", "a\n{% if %}\n", {});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().message,
            "dir/chat_template.jinja: line 2: syntax error: unexpected end of "
            "block");
  EXPECT_EQ(Text("a\n\n{{ raise_exception('roles\nmust alternate') }}"),
            "error: dir/chat_template.jinja: line 3: roles must alternate");
  EXPECT_EQ(Text("\n{{ nothing.at.all }}"),
            "error: dir/chat_template.jinja: line 2: undefined value");
  EXPECT_EQ(Text("{{ nothing | tojson }}"),
            "error: dir/chat_template.jinja: line 1: could not serialize to "
            "value: tojson: undefined cannot be written as JSON");
  EXPECT_TRUE(Text("{{ 'x' | guess }}").ends_with("guess is unknown"));
  EXPECT_TRUE(Text("{% include 'other' %}").starts_with("error: "));
}

TEST(ChatTemplateTest, RefusesBadInput) {
  const ChatTemplate plain = MakeTemplate("x");
  const auto message = [&](std::string_view messages, std::string_view extra) {
    return plain.Render({messages, extra}).error().message;
  };
  EXPECT_EQ(message("{}", "{}"), "messages: must be a JSON array");
  EXPECT_EQ(message("[]", "[]"), "extra: must be a JSON object");
  EXPECT_TRUE(message("[", "{}").starts_with("messages: "));
  EXPECT_EQ(message("[\"\xff\"]", "{}"),
            "messages: invalid UTF-8 at byte 2 (0xff)");
}

TEST(ChatTemplateTest, EndsWhateverTheTemplateDoes) {
  const std::string forever =
      "{% for a in range(9999) %}{% for b in range(9999) %}";
  EXPECT_EQ(Text(forever + "{% endfor %}{% endfor %}"),
            "error: dir/chat_template.jinja: line 1: must end within 10000000 "
            "steps, does not");
  EXPECT_EQ(Text("{% set x = 'y' * 100000 %}" + forever +
                 "{{ x }}{% endfor %}{% endfor %}"),
            "error: dir/chat_template.jinja: text must be at most 67108864 "
            "bytes, is longer");
  EXPECT_TRUE(Text("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")
                  .starts_with("error: dir/chat_template.jinja: line 1: "));
  // A list in a list in a list.
  EXPECT_EQ(Text("{% set ns = namespace(x=[]) %}{% for a in range(900) %}"
                 "{% for b in range(900) %}{% set ns.x = [ns.x] %}"
                 "{% endfor %}{% endfor %}done"),
            "done");
  const auto deep =
      ChatTemplate::FromText("dir", "{{" + std::string(100'000, '('), {});
  EXPECT_FALSE(deep.ok());
}

TEST(MessagesJsonTest, QuotesWhatJsonNeedsQuoted) {
  const ChatMessage messages[] = {{"user", "a \"b\"\n\u00e9"}};
  EXPECT_EQ(MessagesJson(messages).value(),
            "[{\"role\":\"user\",\"content\":\"a \\\"b\\\"\\n\u00e9\"}]");
  const ChatMessage bad[] = {{"user", "fine"}, {"user", "no\xff"}};
  EXPECT_EQ(MessagesJson(bad).error().message,
            "message 1: content: invalid UTF-8 at byte 2 (0xff)");
}

}  // namespace
}  // namespace winnow
