#include "serve/system_turns.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "serve/prompt_encoder.h"
#include "text/chat_template.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kTurns =
    R"([{"role":"system","content":"One."},{"role":"user","content":"Hi"},)"
    R"({"role":"system","content":"Two.\n"},{"role":"user","content":"Go"},)"
    R"({"content":"Yes","role":"assistant"},{"role":"system","content":" "}])";

TEST(SystemTurnsTest, ALaterOneIsFound) {
  EXPECT_TRUE(HasLaterSystemTurn(kTurns));
  EXPECT_FALSE(HasLaterSystemTurn(
      R"([{"role":"system","content":"x"},{"role":"user","content":"y"}])"));
  EXPECT_TRUE(HasLaterSystemTurn(
      R"([{"role":"system","content":"x"},{"role":"system","content":"y"}])"));
}

TEST(SystemTurnsTest, OneTurnHasAllTextsInOrder) {
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

TEST(SystemTurnsTest, EveryTextHasAMark) {
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
      *ChatTemplate::FromText("x", source, std::nullopt);
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

TEST(SystemTurnsTest, AnotherTurnIsWhereTheTemplateWritesIt) {
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

TEST(SystemTurnsTest, OtherRoutesHaveOneTextToo) {
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
TEST(SystemTurnsTest, ATemplatesOwnRefusalIsTold) {
  EXPECT_NE(PromptBy("{{ raise_exception('System role not supported') }}",
                     Endpoint::kChatCompletions,
                     R"({"messages":[{"role":"user","content":"Hi"},)"
                     R"({"role":"system","content":"x"}]})")
                .find("System role not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace winnow
