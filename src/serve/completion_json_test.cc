#include "serve/completion_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

const AnswerIdentity kChat = {.endpoint = Endpoint::kChatCompletions,
                              .id = "chatcmpl-1",
                              .model = "m",
                              .created_unix_s = 5};

// What an event's reader sees: one line of data, then an empty one.
json DataOf(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: "));
  EXPECT_TRUE(event.ends_with("\n\n"));
  EXPECT_EQ(event.find('\n'), event.size() - 2);
  return json::parse(event.substr(6));
}

TEST(CompletionJsonTest, AnEventIsOneLineWhateverTheText) {
  const std::string text = "line\nbreak \"quoted\" \r \xE2\x80\xA8 \x01";
  const json event = DataOf(ChoiceEvent(kChat, {.text = text}, false));
  EXPECT_EQ(event["choices"][0]["delta"]["content"], text);
  EXPECT_EQ(event["object"], "chat.completion.chunk");
  EXPECT_TRUE(event["choices"][0]["finish_reason"].is_null());
  EXPECT_FALSE(event.contains("usage"));
}

TEST(CompletionJsonTest, UsageIsNullUntilTheLastEvent) {
  EXPECT_TRUE(DataOf(RoleEvent(kChat, 1, true)).at("usage").is_null());
  const json last = DataOf(UsageEvent(kChat, {.num_prompt_tokens = 3,
                                              .num_generated_tokens = 4,
                                              .num_cached_tokens = 2,
                                              .num_tokens_read = 9}));
  EXPECT_EQ(last["choices"], json::array());
  EXPECT_EQ(last["usage"]["total_tokens"], 7);
  EXPECT_EQ(last["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(last["usage"]["winnow"]["tokens_read"], 9);
}

TEST(CompletionJsonTest, TheOlderInterfaceListsOffsetsInCharacters) {
  const std::vector<ShownToken> tokens = {
      {.text = "é", .logprob = -1, .top = {{"a", -0.5f}}}, {.text = "b"}};
  const AnswerIdentity older = {.id = "cmpl-1", .model = "m"};
  const json whole = json::parse(CompletionJson(
      older, {{.text = "éb", .tokens = &tokens, .text_offset = 2}}, {}));
  const json& logprobs = whole["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["text_offset"], json({2, 3}));
  EXPECT_EQ(logprobs["top_logprobs"][0]["a"], -0.5);
  EXPECT_EQ(logprobs["top_logprobs"][0]["é"], -1.0);
}

TEST(CompletionJsonTest, ErrorsHaveOpenAisForm) {
  const json error = json::parse(
      ErrorJson({.status = 404, .message = "no", .field = "model"}))["error"];
  EXPECT_EQ(error["message"], "no");
  EXPECT_EQ(error["type"], "not_found_error");
  EXPECT_EQ(error["param"], "model");
  EXPECT_EQ(error["code"], 404);
  EXPECT_TRUE(DataOf(ErrorEvent({.status = 500}))["error"]["param"].is_null());
}

}  // namespace
}  // namespace winnow
