#include "serve/completion_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

constexpr Endpoint kChat = Endpoint::kChatCompletions;

Result<CompletionRequest> Parse(const std::string& body,
                                Endpoint endpoint = Endpoint::kCompletions) {
  RequestRules rules;
  rules.max_n = 4;
  rules.vocab_size = 100;
  rules.defaults.top_k = 7;
  return ParseCompletionRequest(body, endpoint, rules);
}

std::string Complaint(const std::string& body,
                      Endpoint endpoint = Endpoint::kCompletions) {
  const auto parsed = Parse(body, endpoint);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(CompletionRequestTest, TakesPromptsInEveryForm) {
  using Texts = std::vector<std::string>;
  using Ids = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(Parse(R"({"prompt":"a"})")->texts, Texts{"a"});
  EXPECT_EQ(Parse(R"({"prompt":["a","b"]})")->texts, (Texts{"a", "b"}));
  EXPECT_EQ(Parse(R"({"prompt":[1,2]})")->token_ids, (Ids{{1, 2}}));
  EXPECT_EQ(Parse(R"({"prompt":[[1],[2,3]]})")->token_ids, (Ids{{1}, {2, 3}}));
  for (const char* prompt : {"[[1],2]", "[[1],[]]", "[100]", "[[-1]]", "null",
                             "[1,\"a\"]", "[[1.0]]"}) {
    EXPECT_EQ(
        FieldNamedIn(Complaint(fmt::format(R"({{"prompt":{}}})", prompt))),
        "prompt")
        << prompt;
  }
}

TEST(CompletionRequestTest, ReadsMessages) {
  const auto parsed = Parse(
      R"({"messages":[{"role":"developer","content":"Be brief."},)"
      R"({"role":"user","name":"Ann","content":[{"type":"text","text":"Say "},)"
      R"({"type":"text","text":"hi"}]},)"
      R"({"role":"assistant","tool_calls":[]}],)"
      R"("chat_template_kwargs":{"enable_thinking":false}})",
      kChat);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const json messages = json::parse(parsed->messages_json);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[1]["content"], "Say hi");
  EXPECT_EQ(messages[1]["name"], "Ann");
  EXPECT_TRUE(messages[2]["content"].is_null());
  EXPECT_EQ(json::parse(parsed->template_json)["enable_thinking"], false);
  EXPECT_FALSE(parsed->add_special_tokens);
}

TEST(CompletionRequestTest, NamesTheMessageThatIsWrong) {
  const auto field_of = [](const std::string& messages) {
    return FieldNamedIn(
        Complaint(fmt::format(R"({{"messages":{}}})", messages), kChat));
  };
  EXPECT_EQ(field_of("[]"), "messages");
  EXPECT_EQ(field_of("[1]"), "messages[0]");
  EXPECT_EQ(field_of(R"([{"role":"robot","content":"x"}])"),
            "messages[0].role");
  EXPECT_EQ(field_of(R"([{"role":"user"}])"), "messages[0].content");
  EXPECT_EQ(field_of(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
            "messages[0].content[0].type");
}

TEST(CompletionRequestTest, TakesTheCheckpointsDefaults) {
  const auto plain = Parse(R"({"prompt":"a"})");
  EXPECT_EQ(plain->sampling.temperature, 1.0f);
  EXPECT_EQ(plain->sampling.top_k, 7);
  EXPECT_FALSE(plain->max_tokens);
  EXPECT_FALSE(plain->seed);
  const auto own = Parse(
      R"({"prompt":"a","top_k":-1,"temperature":0,"seed":-1,"max_tokens":3,)"
      R"("logit_bias":{"5":-2.5},"stop":"x"})");
  EXPECT_EQ(own->sampling.top_k, 0);
  EXPECT_EQ(own->sampling.temperature, 0.0f);
  EXPECT_EQ(own->seed, UINT64_MAX);
  EXPECT_EQ(own->max_tokens, 3);
  ASSERT_EQ(own->sampling.logit_bias.size(), 1u);
  EXPECT_EQ(own->sampling.logit_bias[0].token_id, 5);
  EXPECT_EQ(own->sampling.logit_bias[0].bias, -2.5f);
  EXPECT_EQ(own->stop, std::vector<std::string>{"x"});
}

TEST(CompletionRequestTest, LogprobsAreANumberOrASwitch) {
  EXPECT_EQ(Parse(R"({"prompt":"a","logprobs":3})")->sampling.logprobs, 3);
  const std::string begin = R"({"messages":[{"role":"user","content":"x"}],)";
  EXPECT_EQ(Parse(begin + R"("logprobs":true,"top_logprobs":2})", kChat)
                ->sampling.logprobs,
            2);
  EXPECT_EQ(Parse(begin + R"("logprobs":true})", kChat)->sampling.logprobs, 0);
  EXPECT_EQ(FieldNamedIn(Complaint(begin + R"("top_logprobs":2})", kChat)),
            "top_logprobs");
}

TEST(CompletionRequestTest, AnErrorNamesFieldLimitAndValue) {
  EXPECT_EQ(Complaint(R"({"prompt":"a","n":9})"),
            "request: field n: must be an integer in [1, 4], is 9");
  EXPECT_EQ(FieldNamedIn(Complaint(R"({"prompt":"a","stop":[""]})")),
            "stop[0]");
  EXPECT_EQ(FieldNamedIn(Complaint("{")), "");
}

}  // namespace
}  // namespace winnow
