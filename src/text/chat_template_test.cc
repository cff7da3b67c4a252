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
  return ChatTemplate::FromText("dir", {.chat_template_jinja = jinja,
                                        .tokenizer_config_json = config})
      .value();
}

// Of a greeting where the template reads messages.
std::string Text(const std::string& jinja, std::string_view extra = "{}") {
  const bool reads = jinja.find("messages") != std::string::npos;
  const auto text = MakeTemplate(jinja).Render({reads ? kHello : "[]", extra});
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
          .Render({"[]"});
  EXPECT_EQ(text.value(), "<s>|</s>|False");
  const auto asked = MakeTemplate("{{ bos_token }}|{{ eos_token }}", config)
                         .Render({"[]", R"({"bos_token": "<x>"})"});
  EXPECT_EQ(asked.value(), "<x>|</s>");
}

TEST(ChatTemplateTest, FindsTheTemplate) {
  const auto rendered = [](const std::optional<std::string>& jinja,
                           const std::optional<std::string>& config) {
    const auto found = ChatTemplate::FromText(
        "dir", {.chat_template_jinja = jinja, .tokenizer_config_json = config});
    return found.ok() ? found->Render({"[]"}).value() : found.error().message;
  };
  EXPECT_EQ(rendered("a", R"({"chat_template": "b"})"), "a");
  EXPECT_EQ(rendered({}, R"({"chat_template": "b"})"), "b");
  EXPECT_EQ(rendered({}, R"({"chat_template": [
      {"name": "tool_use", "template": "t"},
      {"name": "default", "template": "d"}]})"),
            "d");
  EXPECT_EQ(rendered({}, R"({"chat_template": {"rag": "r", "default": "d"}})"),
            "d");
  EXPECT_EQ(rendered({}, R"({"chat_template": {"default": 3}})"),
            "dir/tokenizer_config.json: chat_template: template \"default\" "
            "must be a string");
  EXPECT_EQ(rendered({}, R"({"chat_template": 3})"),
            "dir/tokenizer_config.json: chat_template: must be a string, a "
            "list of {name, template}, or an object of templates by name");
  EXPECT_TRUE(rendered({}, "{").starts_with("dir/tokenizer_config.json: "));
  const std::string none =
      "dir: no chat template (looked for chat_template.jinja, "
      "additional_chat_templates/ and \"chat_template\" in "
      "tokenizer_config.json)";
  EXPECT_EQ(rendered({}, {}), none);
  EXPECT_EQ(rendered({}, "{}"), none);
}

TEST(ChatTemplateTest, ToolsMayHaveATemplateOfTheirOwn) {
  const auto both = ChatTemplate::FromText(
      "dir", {.tokenizer_config_json = R"({"chat_template": [
      {"name": "tool_use", "template": "t{{ tools | length }}"},
      {"name": "default", "template": "d"}]})"});
  EXPECT_EQ(both->Render({"[]", R"({"tools": [{}]})"}).value(), "t1");
  EXPECT_EQ(both->Render({"[]", R"({"tools": null})"}).value(), "d");
  EXPECT_EQ(both->ToolSource(), "t{{ tools | length }}");
  EXPECT_EQ(MakeTemplate("{{ tools }}").ToolSource(), "{{ tools }}");
}

// save_pretrained of transformers writes so what a model has beside its main
// template; one file goes before all templates in the config.
TEST(ChatTemplateTest, FindsNamedTemplates) {
  ChatTemplateFiles files = {
      .chat_template_jinja = "d",
      .tokenizer_config_json = R"({"chat_template": [
          {"name": "default", "template": "c"},
          {"name": "rag", "template": "r"}]})",
      .additional = {{"tool_use", "t{{ tools | length }}"}, {"brief", "b"}}};
  const auto text = [&](std::string_view extra) {
    const auto named = ChatTemplate::FromText("dir", files).value();
    const auto rendered = named.Render({"[]", extra});
    return rendered.ok() ? *rendered : rendered.error().message;
  };
  EXPECT_EQ(text("{}"), "d");
  EXPECT_EQ(text(R"({"tools": [{}]})"), "t1");
  EXPECT_EQ(text(R"({"chat_template": "brief", "tools": [{}]})"), "b");
  EXPECT_EQ(text(R"({"chat_template": "rag"})"),
            "chat_template must be a template's name, one of \"default\", "
            "\"tool_use\", \"brief\", is \"rag\"");
  files.chat_template_jinja = std::nullopt;
  EXPECT_EQ(text("{}"), "c");
  files.additional.clear();
  EXPECT_EQ(text(R"({"chat_template": "rag"})"), "r");
  files.tokenizer_config_json = std::nullopt;
  files.additional = {{"brief", "b"}};
  EXPECT_EQ(text("{}"),
            "has no template named \"default\": chat_template must be the "
            "name of one");
}

// transformers puts the files of the folder over chat_template.jinja.
TEST(ChatTemplateTest, TakesTheFoldersDefault) {
  const auto made = ChatTemplate::FromText(
      "dir", {.chat_template_jinja = "own",
              .additional = {{"default", "other"}, {"brief", "b"}}});
  EXPECT_EQ(made->Render({"[]"}).value(), "other");
  const auto asked = made->Render({"[]", R"({"chat_template": "x"})"});
  EXPECT_EQ(asked.error().message,
            "chat_template must be a template's name, one of \"default\", "
            "\"brief\", is \"x\"");
}

TEST(ChatTemplateTest, OneUnusableTemplateLeavesTheOthers) {
  const std::string trans = "{% trans %}a{% endtrans %}";
  const auto made = ChatTemplate::FromText(
      "dir", {.chat_template_jinja = "d",
              .additional = {{"bad", trans}, {"brief", "b"}}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->Render({"[]"}).value(), "d");
  EXPECT_EQ(made->Render({"[]", R"({"chat_template": "brief"})"}).value(), "b");
  const std::string why =
      "dir/additional_chat_templates/bad.jinja: line 1: syntax error: "
      "Encountered unknown tag 'trans'.";
  EXPECT_EQ(made->Render({"[]", R"({"chat_template": "bad"})"}).error().message,
            why);
  EXPECT_EQ(made->Complaints(), why + "; chats cannot use it\n");
  EXPECT_EQ(MakeTemplate("d").Complaints(), "");
  EXPECT_FALSE(
      ChatTemplate::FromText("dir", {.chat_template_jinja = trans}).ok());
  // transformers asks for a name, too, once a chat is rendered.
  const auto named = ChatTemplate::FromText(
      "dir", {.tokenizer_config_json = R"({"chat_template": [
                  {"name": "tool_use", "template": "t"}]})"});
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ(named->Render({"[]", R"({"tools": [{}]})"}).value(), "t");
  EXPECT_FALSE(named->Render({"[]"}).ok());
  EXPECT_EQ(named->Complaints(),
            "no chat template named \"default\": each chat must name one of "
            "\"tool_use\" (chat_template_kwargs: chat_template)\n");
}

TEST(ChatTemplateTest, ReadsAFolderOfTemplates) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("chat_templates_test_{}", getpid());
  std::filesystem::create_directories(folder / "additional_chat_templates");
  const auto write = [&](const char* name, const char* text) {
    ASSERT_TRUE(WriteFile(folder / name, text).ok());
  };
  write("chat_template.jinja", "{{ bos_token }}{{ image_token }}");
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  write("special_tokens_map.json",
        R"({"bos_token": {"content": "<b>"}, "image_token": "<i>"})");
  write("additional_chat_templates/tool_use.jinja", "{{ 1 / 0 }}");
  const auto read = ChatTemplate::Load(folder).value();
  EXPECT_EQ(read.Render({"[]"}).value(), "<b><i>");
  const auto failed = read.Render({kHello, R"({"tools": []})"});
  EXPECT_TRUE(failed.error().message.ends_with(
      "additional_chat_templates/tool_use.jinja: line 1: division by zero"));
  std::filesystem::remove_all(folder);
}

// As transformers 5: what special_tokens_map.json says goes first unless the
// config lists its added tokens; names of a model's own are variables, too.
TEST(ChatTemplateTest, TakesSpecialTokensFromAllFiles) {
  const auto text = [](const std::string& config) {
    return ChatTemplate::FromText(
               "dir", {.chat_template_jinja = "{{ eos_token }}{{ boi_token }}"
                                              "{{ x_token }}",
                       .tokenizer_config_json = config,
                       .special_tokens_map_json =
                           R"({"eos_token": {"content": "<m>"}})"})
        .value()
        .Render({"[]"})
        .value();
  };
  EXPECT_EQ(text(R"({"eos_token": "</s>", "x_token": "<x>",
                     "extra_special_tokens": {"boi_token": "<boi>"}})"),
            "<m><boi><x>");
  EXPECT_EQ(text(R"({"eos_token": "</s>", "added_tokens_decoder": {}})"),
            "</s>");
  const std::string specific =
      R"("model_specific_special_tokens": {"boi_token": "<boi>"}})";
  EXPECT_EQ(text("{" + specific), "<m><boi>");
  EXPECT_EQ(text(R"({"x_token": "<x>", )" + specific), "<m><x>");
  EXPECT_EQ(text(R"({"extra_special_tokens": {"x_token": "<x>"}, )" + specific),
            "<m><x>");
}

constexpr std::string_view kParts =
    R"([{"role": "user", "content": [{"type": "text", "text": " a "},
                                     {"type": "text", "text": "b"}]}])";

TEST(ChatTemplateTest, GivesATemplateTheContentsThatItReads) {
  const auto both = [](const std::string& jinja) {
    const ChatTemplate made = MakeTemplate(jinja);
    const auto text = [&](std::string_view messages) {
      const auto rendered = made.Render({messages});
      return rendered.ok() ? *rendered : rendered.error().message;
    };
    return text(kHello) + "|" + text(kParts);
  };
  const std::string parts =
      "{% for p in messages[0].content %}{{ p.text | trim }}{% endfor %}";
  const std::string text = "{{ messages[0].content }}";
  EXPECT_EQ(both(text), " Hello | a b");
  EXPECT_EQ(both(parts), "Hello|ab");
  EXPECT_EQ(both("{% if messages[0].content is string %}" + text +
                 "{% else %}" + parts + "{% endif %}"),
            " Hello |ab");
}

// What transformers renders of parts.
TEST(ChatTemplateTest, FindsFormsBehindChangesAndDemands) {
  const std::string loop = "{% for p in messages[-1].content %}";
  for (const std::string_view said :
       {std::string_view(R"("hey you")"),
        std::string_view(R"([{"type": "text", "text": "hey you"}])")}) {
    const std::string messages = fmt::format(
        R"([{{"role": "user", "content": {}}},
            {{"role": "assistant", "content": {}}},
            {{"role": "user", "content": {}}}])",
        said, said, said);
    const auto text = [&](const std::string& jinja) {
      const auto made =
          MakeTemplate(jinja).Render({messages, R"({"mode": "chat"})"});
      return made.ok() ? *made : made.error().message;
    };
    EXPECT_EQ(text(loop + "{{ p.text | upper }}{% endfor %}"), "HEY YOU");
    EXPECT_EQ(text(loop + "{{ p.text[1:] }}{% endfor %}"), "ey you");
    EXPECT_EQ(text(loop + "{{ p.text | urlencode }}{% endfor %}"), "hey%20you");
    EXPECT_EQ(text("{% if mode is undefined %}{{ raise_exception('mode') }}"
                   "{% endif %}" +
                   loop + "{{ p.text }}{% endfor %}"),
              "hey you");
    EXPECT_EQ(text("{% if mode == 'chat' %}" + loop +
                   "{{ p.text }}{% endfor %}{% endif %}"),
              "hey you");
    EXPECT_EQ(text("{% if messages | length < 3 %}{{ raise_exception('few') }}"
                   "{% endif %}{% for m in messages %}"
                   "{% for p in m.content %}{{ p.text }}{% endfor %}"
                   "{{ m.content[0]['type'] }};{% endfor %}"),
              "hey youtext;hey youtext;hey youtext;");
    EXPECT_EQ(text("{{ messages[-1].content | upper }}"), "HEY YOU");
    EXPECT_EQ(text("{{ messages[-1].content | string | urlencode }}"),
              "hey%20you");
    EXPECT_EQ(text("{{ messages[-1].content | tojson }}"), "\"hey you\"");
  }
}

TEST(ChatTemplateTest, RefusesAPromptThatSaysNothing) {
  const std::string refused =
      "error: dir/chat_template.jinja: the text has nothing of what the "
      "messages say: the template reads contents of another form; give "
      "messages contents that it reads, or the server another template "
      "(--chat-template)";
  EXPECT_EQ(Text("{{ messages[0].content.parts }}"), refused);
  EXPECT_EQ(Text("{{ messages[0].content | upper | trim }}"), "HELLO");
  EXPECT_EQ(Text("{{ messages[0].content[3:] }}"), "llo ");
}

TEST(ChatTemplateTest, TellsWhatWasSaidFromWhatATemplateWrites) {
  const auto text = [](const std::string& jinja, const std::string& said) {
    const std::string messages =
        R"([{"role": "user", "content": ")" + said + R"("}])";
    const auto made = MakeTemplate(jinja).Render({messages});
    return made.ok() ? *made : "error";
  };
  const std::string roles = "<|{{ messages[0].role }}|>";
  const std::string asks = "Which user is the best assistant?";
  EXPECT_EQ(text(roles + "{{ messages[0].contents }}" + asks, asks), "error");
  EXPECT_EQ(text(roles + "{{ messages[0].contents }}", "user"), "error");
  EXPECT_EQ(text(roles + "{{ messages[0].content }}", "user"), "<|user|>user");
  EXPECT_EQ(text("{{ messages[0].content[1:] }}", "hi"), "i");
  EXPECT_EQ(text("{{ messages[0].content | urlencode }}", "\u0434\u0430"),
            "%D0%B4%D0%B0");
  EXPECT_EQ(text("{{ messages[0].contents }}", "?"), "error");
  EXPECT_EQ(text("{{ messages[0].contents }}", " "), "");
}

// The rule of transformers' continue_final_message.
TEST(ChatTemplateTest, ContinuesWhereTheTemplateEndsAText) {
  const auto end = [](const std::string& filter, std::string_view said) {
    ChatInput input;
    const std::string messages =
        fmt::format(R"([{{"role": "assistant", "content": "{}"}}])", said);
    input.messages_json = messages;
    input.continue_last = true;
    const auto text =
        MakeTemplate("<{{ messages[0].content" + filter + " }}>").Render(input);
    return text.ok() ? *text : text.error().message;
  };
  EXPECT_EQ(end("", " a\\n\\n"), "< a\n\n");
  EXPECT_EQ(end(" | trim", " a\\n\\n"), "<a");
  EXPECT_EQ(end("[:1]", "a"), "the template does not write the last message");
  EXPECT_EQ(MakeTemplate("x")
                .Render({.messages_json = "[]", .continue_last = true})
                .error()
                .message,
            "the last message has no text");
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
                        .Render({"[]", "{}", noon_unix_s});
  EXPECT_EQ(text.value(), "09 Sep 2001");
}

TEST(ChatTemplateTest, NamesTheLineOfWhatGoesWrong) {
  const auto broken =
      ChatTemplate::FromText("dir", {.chat_template_jinja = "a\n{% if %}\n"});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().message,
            "dir/chat_template.jinja: line 2: syntax error: Expected an "
            "expression, got end of statement block");
  EXPECT_EQ(Text("a\n\n{{ raise_exception('roles\nmust alternate') }}"),
            "error: dir/chat_template.jinja: line 3: roles must alternate");
  EXPECT_EQ(Text("\n{{ nothing.at.all }}"),
            "error: dir/chat_template.jinja: line 2: 'nothing' is undefined");
  EXPECT_EQ(Text("{{ nothing | tojson }}"),
            "error: dir/chat_template.jinja: line 1: Object of type Undefined "
            "is not JSON serializable");
  EXPECT_TRUE(Text("{{ 'x' | guess }}").ends_with("No filter named 'guess'."));
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
            "error: dir/chat_template.jinja: line 1: text must be at most "
            "67108864 bytes, is longer");
  EXPECT_TRUE(Text("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")
                  .starts_with("error: dir/chat_template.jinja: line 1: "));
  // A list in a list in a list.
  EXPECT_EQ(Text("{% set ns = namespace(x=[]) %}{% for a in range(900) %}"
                 "{% for b in range(900) %}{% set ns.x = [ns.x] %}"
                 "{% endfor %}{% endfor %}done"),
            "done");
  const auto deep = ChatTemplate::FromText(
      "dir", {.chat_template_jinja = "{{" + std::string(100'000, '(')});
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
