#include "serve/answer/completion_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace winnow {
namespace {

using nlohmann::json;

const AnswerIdentity kChatIdentity = {.endpoint = Endpoint::kChatCompletions,
                                      .id = "chatcmpl-1",
                                      .model = "m",
                                      .created_unix_s = 5};

CompletionStyle Chat(StreamUsage usage = StreamUsage::kNone) {
  return {kChatIdentity, usage};
}

// What an event's reader sees: one line of data, then an empty one.
json DataOf(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: "));
  EXPECT_TRUE(event.ends_with("\n\n"));
  EXPECT_EQ(event.find('\n'), event.size() - 2);
  return json::parse(event.substr(6));
}

TEST(CompletionJsonTest, AnEventIsOneLineWhateverTheText) {
  const std::string text = "line\nbreak \"quoted\" \r \xE2\x80\xA8 \x01";
  const json event = DataOf(Chat().Piece({.parts = {{.text = text}}}));
  EXPECT_EQ(event["choices"][0]["delta"]["content"], text);
  EXPECT_EQ(event["object"], "chat.completion.chunk");
  EXPECT_TRUE(event["choices"][0]["finish_reason"].is_null());
  EXPECT_FALSE(event.contains("usage"));
}

TEST(CompletionJsonTest, ThoughtsAreToldBesideWhatIsSaid) {
  const std::vector<ShownPart> parts = {{.text = "So.", .is_thought = true},
                                        {.text = "Hi"}};
  const json event = DataOf(Chat().Piece({.parts = parts}));
  const json delta = {
      {"content", "Hi"}, {"reasoning", "So."}, {"reasoning_content", "So."}};
  EXPECT_EQ(event["choices"][0]["delta"], delta);
  const json whole =
      json::parse(Chat().Whole({{.parts = parts}}, {.num_generated_tokens = 4,
                                                    .num_thought_tokens = 3}));
  const json message = whole["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Hi");
  EXPECT_EQ(message["reasoning"], "So.");
  EXPECT_EQ(message["reasoning_content"], "So.");
  EXPECT_EQ(whole["usage"]["completion_tokens_details"],
            (json{{"reasoning_tokens", 3}}));
  EXPECT_FALSE(json::parse(Chat().Whole({{}}, {}))["usage"].contains(
      "completion_tokens_details"));
}

TEST(CompletionJsonTest, UsageIsNullUntilTheLastEvent) {
  using enum StreamUsage;
  EXPECT_TRUE(DataOf(Chat(kAtEnd).Begin(1, {})).at("usage").is_null());
  const std::string end = Chat(kAtEnd).End({.num_prompt_tokens = 3,
                                            .num_generated_tokens = 4,
                                            .num_cached_tokens = 2,
                                            .num_tokens_read = 9});
  const std::string done = "data: [DONE]\n\n";
  ASSERT_TRUE(end.ends_with(done));
  EXPECT_EQ(Chat().End({}), done);
  const json last = DataOf(end.substr(0, end.size() - done.size()));
  EXPECT_EQ(last["choices"], json::array());
  EXPECT_EQ(last["usage"]["total_tokens"], 7);
  EXPECT_EQ(last["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(last["usage"]["winnow"]["tokens_read"], 9);
}

// As vLLM tells it: of the event's own answer, up to there.
TEST(CompletionJsonTest, UsageInEachEventGrowsWithItsAnswer) {
  CompletionStyle style = Chat(StreamUsage::kInEach);
  EXPECT_TRUE(style.begins_with_cached());
  const json begun =
      DataOf(style.Begin(1, {.num_prompt_tokens = 3, .num_cached_tokens = 1}));
  const json none = {{"prompt_tokens", 3},
                     {"completion_tokens", 0},
                     {"total_tokens", 3},
                     {"prompt_tokens_details", {{"cached_tokens", 1}}}};
  EXPECT_EQ(begun["usage"], none);
  const json piece = DataOf(style.Piece({.index = 1,
                                         .parts = {{.text = "x"}},
                                         .num_prompt_tokens = 5,
                                         .num_generated_tokens = 2,
                                         .num_cached_tokens = 4}));
  const json two = {{"prompt_tokens", 5},
                    {"completion_tokens", 2},
                    {"total_tokens", 7},
                    {"prompt_tokens_details", {{"cached_tokens", 4}}}};
  EXPECT_EQ(piece["usage"], two);
  const std::string end = style.End({.num_prompt_tokens = 8});
  EXPECT_NE(end.find("\"choices\":[],\"usage\":{\"prompt_tokens\":8,"),
            end.npos)
      << end;
}

const AnswerIdentity kOlderIdentity = {.id = "cmpl-1", .model = "m"};

json OlderLogprobs(const std::vector<ShownToken>& tokens, TokenNames names) {
  CompletionStyle style(kOlderIdentity, StreamUsage::kNone, names);
  const json whole =
      json::parse(style.Whole({{.tokens = &tokens, .text_offset = 2}}, {}));
  return whole["choices"][0]["logprobs"];
}

TEST(CompletionJsonTest, TheOlderInterfaceListsOffsetsInCharacters) {
  const std::vector<ShownToken> tokens = {
      {.token_id = 1,
       .text = "é",
       .logprob = -1,
       .top = {{.token_id = 2, .text = "a", .logprob = -0.5f}}},
      {.token_id = 3, .text = "b"}};
  const json logprobs = OlderLogprobs(tokens, TokenNames::kTexts);
  EXPECT_EQ(logprobs["tokens"], json({"é", "b"}));
  EXPECT_EQ(logprobs["text_offset"], json({2, 3}));
  EXPECT_EQ(logprobs["top_logprobs"][0], (json{{"a", -0.5}, {"é", -1.0}}));
}

// Tokens that look alike, and such as are no text here.
TEST(CompletionJsonTest, EveryAlternativeHasANameOfItsOwn) {
  const auto other = [](int32_t id, std::string text, float logprob) {
    return ShownToken{
        .token_id = id, .text = std::move(text), .logprob = logprob};
  };
  ShownToken end = other(9, "", -4);
  end.is_skipped = true;
  end.bytes = "<end>";
  const std::vector<ShownToken> tokens = {
      {.token_id = 1,
       .text = "a",
       .logprob = -1,
       .top = {other(1, "a", -1), other(2, "a", -2), other(3, "b", -3), end,
               other(4, "", -5), other(5, "", -6), other(6, "b", -7)}}};
  EXPECT_EQ(OlderLogprobs(tokens, TokenNames::kTexts)["top_logprobs"][0],
            (json{{"a", -1},
                  {"token_id:2", -2},
                  {"b", -3},
                  {"<end>", -4},
                  {"token_id:4", -5},
                  {"token_id:5", -6},
                  {"token_id:6", -7}}));
}

// As vLLM does with return_tokens_as_token_ids; offsets stay the text's.
TEST(CompletionJsonTest, TokensMayBeNamedByTheirIds) {
  const std::vector<ShownToken> tokens = {
      {.token_id = 7,
       .text = "é",
       .bytes = "\xc3\xa9",
       .logprob = -1,
       .top = {{.token_id = 8, .text = "b", .bytes = "b", .logprob = -2}}},
      {.token_id = 8, .text = "b", .bytes = "b"}};
  const json older = OlderLogprobs(tokens, TokenNames::kIds);
  EXPECT_EQ(older["tokens"], json({"token_id:7", "token_id:8"}));
  EXPECT_EQ(older["top_logprobs"][0],
            (json{{"token_id:7", -1}, {"token_id:8", -2}}));
  EXPECT_EQ(older["text_offset"], json({2, 3}));
  const json chat = json::parse(TokensJson(tokens, TokenNames::kIds).dump());
  EXPECT_EQ(chat[0]["token"], "token_id:7");
  EXPECT_EQ(chat[0]["bytes"], json({0xc3, 0xa9}));
  EXPECT_EQ(chat[0]["top_logprobs"][0]["token"], "token_id:8");
}

// The bytes are the token's own, also where the text has none of it.
TEST(CompletionJsonTest, ChatsListATokensOwnBytes) {
  const std::vector<ShownToken> tokens = {
      {.text = "", .bytes = "\xf0\x9f"},
      {.text = "", .bytes = "<end>", .is_skipped = true}};
  const json content = json::parse(TokensJson(tokens).dump());
  EXPECT_EQ(content[0]["token"], "");
  EXPECT_EQ(content[0]["bytes"], json({0xf0, 0x9f}));
  EXPECT_EQ(content[1]["token"], "<end>");
  EXPECT_EQ(content[1]["bytes"], json({'<', 'e', 'n', 'd', '>'}));
}

TEST(CompletionJsonTest, CallsTakeThePlaceOfText) {
  const ShownCall call = {
      .id = "abc", .index = 1, .name = "get", .arguments_json = "{}"};
  const ShownChoice choice = {.parts = {{.call = call}},
                              .finish_reason = "tool_calls"};
  const json whole = json::parse(Chat().Whole({choice}, {}))["choices"][0];
  EXPECT_TRUE(whole["message"]["content"].is_null());
  EXPECT_EQ(whole["message"]["tool_calls"],
            json::parse(R"([{"id":"abc","type":"function",
                             "function":{"name":"get","arguments":"{}"}}])"));
  const json delta = DataOf(Chat().Piece(choice))["choices"][0]["delta"];
  EXPECT_EQ(delta["tool_calls"][0]["index"], 1);
  EXPECT_FALSE(delta.contains("content"));
}

TEST(CompletionJsonTest, CallsHaveIdsOfTheirOwn) {
  EXPECT_EQ(CallId("a", 0, 0).size(), 9u);
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(CallId("a", i % 4, i / 4));
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_NE(CallId("a", 0, 0), CallId("b", 0, 0));
}

TEST(CompletionJsonTest, ErrorsHaveOpenAisForm) {
  const json error = json::parse(
      ErrorJson({.status = 404, .message = "no", .field = "model"}))["error"];
  EXPECT_EQ(error["message"], "no");
  EXPECT_EQ(error["type"], "not_found_error");
  EXPECT_EQ(error["param"], "model");
  EXPECT_TRUE(error["code"].is_null());
  const std::string failure = Chat().Failure({.status = 500});
  EXPECT_TRUE(failure.starts_with("data: {\"error\":{"));
  EXPECT_NE(failure.find("\"param\":null"), std::string::npos);
}

}  // namespace
}  // namespace winnow
