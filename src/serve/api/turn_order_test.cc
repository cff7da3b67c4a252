#include "serve/api/turn_order.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "serve/api/prompt_encoder.h"
#include "text/chat_template.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kTurns =
    R"([{"role":"system","content":"One."},{"role":"user","content":"Hi"},)"
    R"({"role":"system","content":"Two.\n"},{"role":"user","content":"Go"},)"
    R"({"content":"Yes","role":"assistant"},{"role":"system","content":" "}])";

TEST(TurnOrderTest, ALaterOneIsFound) {
  EXPECT_TRUE(HasLaterSystemTurn(kTurns));
  EXPECT_FALSE(HasLaterSystemTurn(
      R"([{"role":"system","content":"x"},{"role":"user","content":"y"}])"));
  EXPECT_TRUE(HasLaterSystemTurn(
      R"([{"role":"system","content":"x"},{"role":"system","content":"y"}])"));
}

TEST(TurnOrderTest, OneTurnHasAllTextsInOrder) {
  EXPECT_EQ(
      json::parse(WithOneSystemTurn(kTurns, /*joins_users=*/false)),
      json::parse(
          R"([{"role":"system","content":"One.\n\nTwo.\n"},)"
          R"({"role":"user","content":"Hi"},{"role":"user","content":"Go"},)"
          R"({"role":"assistant","content":"Yes"}])"));
  EXPECT_EQ(json::parse(WithOneSystemTurn(kTurns, /*joins_users=*/true))[1],
            json({{"role", "user"}, {"content", "Hi\nGo"}}));
  // A first turn is made where there is none.
  EXPECT_EQ(WithOneSystemTurn(R"([{"role":"user","content":"a"},)"
                              R"({"role":"system","content":"b"}])",
                              /*joins_users=*/true),
            R"([{"role":"system","content":"b"},)"
            R"({"role":"user","content":"a"}])");
}

TEST(TurnOrderTest, EveryTextHasAMark) {
  const MarkedSystemTurns marked = WithSystemTurnsMarked(kTurns);
  ASSERT_EQ(marked.marks.size(), 2u);  // blank text may go unseen
  const json turns = json::parse(marked.messages_json);
  EXPECT_EQ(turns[0]["content"], "One." + marked.marks[0]);
  EXPECT_EQ(turns[2]["content"], "Two.\n" + marked.marks[1]);
}

// The prompt of a chat by a template.
std::string PromptBy(const std::string& source, Endpoint endpoint,
                     const std::string& body) {
  const std::optional<ChatTemplate> chat_template =
      *ChatTemplate::FromText("x", {.chat_template_jinja = source});
  const Tokenizer tokenizer = *Tokenizer::FromJson(
      "x", R"({"model":{"type":"WordLevel","vocab":{"?":0},"unk_token":"?"}})",
      std::nullopt);
  const PromptEncoder encoder(tokenizer, chat_template,
                              {.max_model_len = 99, .max_encoding_bytes = 999});
  RequestRules rules;
  rules.vocab_size = 1;
  const auto request = ParseCompletionRequest(body, endpoint, rules);
  if (!request.ok()) return request.error().message;
  const auto texts = encoder.Texts(*request);
  return texts.ok() ? texts->front() : texts.error().message;
}

// As most templates, Qwen2.5's and Llama 3's for two, write every turn.
constexpr const char* kEveryTurn =
    "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}";
// Qwen3.5's and Mistral's raise.
constexpr const char* kFirstAlone =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}"
    "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}";
// gpt-oss' and Qwen3-VL's leave it out.
constexpr const char* kDropsLater =
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}"
    "[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}";
// DeepSeek R1's keeps the last.
constexpr const char* kKeepsLast =
    "{% set ns = namespace(s='') %}{% for m in messages %}"
    "{% if m.role == 'system' %}{% set ns.s = m.content %}{% endif %}"
    "{% endfor %}[system]{{ ns.s }}{% for m in messages %}"
    "{% if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endif %}"
    "{% endfor %}";

TEST(TurnOrderTest, AnotherTurnIsWhereTheTemplateWritesIt) {
  const std::string chat = R"({"messages":[{"role":"system","content":"One."},)"
                           R"({"role":"developer","content":"Two."},)"
                           R"({"role":"user","content":"Hi"},)"
                           R"({"role":"system","content":" Three."},)"
                           R"({"role":"user","content":"Go"}]})";
  EXPECT_EQ(PromptBy(kEveryTurn, Endpoint::kChatCompletions, chat),
            "[system]One.[system]Two.[user]Hi[system]Three.[user]Go");
  for (const char* source : {kFirstAlone, kDropsLater, kKeepsLast}) {
    EXPECT_EQ(PromptBy(source, Endpoint::kChatCompletions, chat),
              "[system]One.\n\nTwo.\n\n Three.[user]Hi[user]Go")
        << source;
  }
}

TEST(TurnOrderTest, OtherRoutesHaveOneTextToo) {
  const std::string messages =
      R"({"max_tokens":5,"system":"One.","messages":[)"
      R"({"role":"user","content":"Hi"},)"
      R"({"role":"system","content":[{"type":"text","text":"Two."}]},)"
      R"({"role":"user","content":"Go"}]})";
  EXPECT_EQ(PromptBy(kEveryTurn, Endpoint::kMessages, messages),
            "[system]One.[user]Hi[system]Two.[user]Go");
  EXPECT_EQ(PromptBy(kFirstAlone, Endpoint::kMessages, messages),
            "[system]One.\n\nTwo.[user]Hi\nGo");
  const std::string response = R"({"instructions":"One.","input":[)"
                               R"({"role":"developer","content":"Two."},)"
                               R"({"role":"system","content":"Three."},)"
                               R"({"role":"user","content":"Hi"}]})";
  for (const char* source : {kEveryTurn, kFirstAlone, kDropsLater}) {
    EXPECT_EQ(PromptBy(source, Endpoint::kResponses, response),
              "[system]One.\n\nTwo.\n\nThree.[user]Hi");
  }
}

// What fails for another reason fails with the same words.
TEST(TurnOrderTest, ATemplatesOwnRefusalIsTold) {
  EXPECT_NE(PromptBy("{{ raise_exception('System role not supported') }}",
                     Endpoint::kChatCompletions,
                     R"({"messages":[{"role":"user","content":"Hi"},)"
                     R"({"role":"system","content":"x"}]})")
                .find("System role not supported"),
            std::string::npos);
}

// Mistral's, in short: sides take turns, and ids of calls are nine characters.
constexpr const char* kAlternates =
    "{% set ns = namespace(last='assistant') %}{% for m in messages %}"
    "{% if m.role in ['user', 'assistant'] and not m.tool_calls %}"
    "{% if m.role == ns.last %}{{ raise_exception('roles must alternate') }}"
    "{% endif %}{% set ns.last = m.role %}{% endif %}"
    "{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}"
    "{{ raise_exception('ids have length 9') }}{% endif %}<{{ c.id }}>"
    "{% endfor %}{% if m.role == 'tool' %}<{{ m.tool_call_id }}>{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}";

TEST(TurnOrderTest, SidesTakeTurnsWhereTheTemplateDemandsIt) {
  // As Codex begins.
  const std::string twice =
      R"({"input":[{"role":"developer","content":"Be brief."},)"
      R"({"role":"user","content":"cwd: /tmp"},)"
      R"({"role":"user","content":"Hi"}]})";
  EXPECT_EQ(PromptBy(kEveryTurn, Endpoint::kResponses, twice),
            "[system]Be brief.[user]cwd: /tmp[user]Hi");
  EXPECT_EQ(PromptBy(kAlternates, Endpoint::kResponses, twice),
            "[system]Be brief.[user]cwd: /tmp\nHi");
}

TEST(TurnOrderTest, AForeignIdIsShortWhereTheTemplateDemandsIt) {
  const std::string called =
      R"({"input":[{"role":"user","content":"Hi"},)"
      R"({"type":"function_call","call_id":"call_0123456789","name":"f",)"
      R"("arguments":"{}"},{"type":"function_call_output",)"
      R"("call_id":"call_0123456789","output":"5"}]})";
  const std::string prompt =
      PromptBy(kAlternates, Endpoint::kResponses, called);
  const std::string id = prompt.substr(sizeof("[user]Hi<") - 1, 9);
  EXPECT_EQ(prompt, "[user]Hi<" + id + ">[assistant]<" + id + ">[tool]5");
  // One of our own stays.
  const std::string own = std::string(called).replace(
      called.find("call_0123456789"), 15, "abcDEF123");
  EXPECT_NE(
      PromptBy(kAlternates, Endpoint::kResponses, own).find("<abcDEF123>"),
      std::string::npos);
}

// Ids and names that a client leaves out, as Ollama's and older ones do.
TEST(TurnOrderTest, AMissingIdIsMadeWhereTheTemplateDemandsIt) {
  const std::string call = R"({"function":{"name":"f","arguments":"{}"}})";
  const std::string prompt = PromptBy(
      kAlternates, Endpoint::kChatCompletions,
      R"({"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","tool_calls":[)" +
          call + "," + call +
          R"(]},{"role":"tool","content":"5"},{"role":"tool","content":"6"}]})");
  const std::string first = prompt.substr(sizeof("[user]Hi<") - 1, 9);
  const std::string second = prompt.substr(sizeof("[user]Hi<") + 10, 9);
  EXPECT_NE(first, second);
  EXPECT_EQ(prompt, "[user]Hi<" + first + "><" + second + ">[assistant]<" +
                        first + ">[tool]5<" + second + ">[tool]6");
  // A list in which no call has the member at all.
  const json made = json::parse(*WithShortCallIds(
      R"([{"role":"assistant","tool_calls":[{},{"id":null}]},)"
      R"({"role":"tool","tool_call_id":null},{"role":"tool"}])"));
  for (const int i : {0, 1}) {
    EXPECT_EQ(made[0]["tool_calls"][i]["id"], made[1 + i]["tool_call_id"]);
  }
  EXPECT_NE(made[1], made[2]);
}

TEST(TurnOrderTest, ANamedTurnIsJoinedWhereTheTemplateDemandsIt) {
  EXPECT_EQ(PromptBy(kAlternates, Endpoint::kChatCompletions,
                     R"({"messages":[{"role":"user","content":"Hi"},)"
                     R"({"role":"user","name":"bob","content":"Go"}]})"),
            "[user]Hi\nGo");
  EXPECT_EQ(
      json::parse(*WithTurnsJoined(
          R"([{"role":"user","content":"a","name":"bob"},)"
          R"({"content":"b","role":"user","name":"eve","x":1},)"
          R"({"role":"assistant","content":"c","reasoning_content":"C"},)"
          R"({"role":"assistant","content":"d","reasoning_content":"D"},)"
          R"({"role":"tool","content":"5"},{"role":"tool","content":"6"}])")),
      json::parse(
          R"([{"role":"user","content":"a\nb","name":"bob","x":1},)"
          R"({"role":"assistant","content":"c\nd","reasoning_content":"C\nD"},)"
          R"({"role":"tool","content":"5"},{"role":"tool","content":"6"}])"));
}

}  // namespace
}  // namespace winnow
