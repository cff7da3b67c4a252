#include "serve/answer/messages_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

MessagesStyle MakeMessagesStyle() {
  return MessagesStyle(
      {.endpoint = Endpoint::kMessages, .id = "msg_1", .model = "m"});
}

std::vector<json> DataIn(const std::string& text) {
  std::vector<json> events;
  for (size_t at = text.find("data: "); at != std::string::npos;
       at = text.find("\ndata: ", at + 1)) {
    const size_t begin = text.find('{', at);
    events.push_back(
        json::parse(text.substr(begin, text.find('\n', begin) - begin)));
  }
  return events;
}

const ShownCall kCall = {
    .id = "c1", .name = "get", .arguments_json = R"({"b":1,"a":2})"};
constexpr AnswerUsage kMessagesUsage = {
    .num_prompt_tokens = 7, .num_generated_tokens = 3, .num_cached_tokens = 2};

TEST(MessagesJsonTest, EventsTellBlocksOneAfterTheOther) {
  MessagesStyle style = MakeMessagesStyle();
  EXPECT_TRUE(style.begins_with_cached());
  std::string text =
      style.Begin(1, {.num_prompt_tokens = 7, .num_cached_tokens = 2});
  text += style.Piece({.parts = {{.text = "Hi"}}});
  text += style.Piece({.parts = {{.text = "!"}, {.call = kCall}}});
  text += style.Piece({.finish_reason = "tool_calls"});
  text += style.End(kMessagesUsage);
  EXPECT_TRUE(text.starts_with("event: message_start\ndata: {"));
  const std::vector<json> events = DataIn(text);
  std::string types;
  for (const json& event : events) {
    types += event["type"].get<std::string>() + " ";
  }
  EXPECT_EQ(types,
            "message_start content_block_start content_block_delta "
            "content_block_delta content_block_stop content_block_start "
            "content_block_delta content_block_stop message_delta "
            "message_stop ");
  EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], 5);
  EXPECT_EQ(events[0]["message"]["usage"]["cache_read_input_tokens"], 2);
  EXPECT_TRUE(events[0]["message"]["stop_reason"].is_null());
  EXPECT_EQ(events[2]["delta"]["text"], "Hi");
  EXPECT_EQ(events[5]["index"], 1);
  EXPECT_EQ(events[5]["content_block"]["input"], json::object());
  EXPECT_EQ(events[6]["delta"]["partial_json"], kCall.arguments_json);
  EXPECT_EQ(events[8]["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(events[8]["usage"]["cache_read_input_tokens"], 2);
}

TEST(MessagesJsonTest, AThoughtIsABlockOfItsOwn) {
  MessagesStyle style = MakeMessagesStyle();
  std::string text =
      style.Piece({.parts = {{.text = "S", .is_thought = true}}});
  text += style.Piece(
      {.parts = {{.text = "o.", .is_thought = true}, {.text = "Hi"}}});
  text += style.Piece({.finish_reason = "stop"});
  const std::vector<json> events = DataIn(text);
  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(events[0]["content_block"],
            (json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}));
  EXPECT_EQ(events[2]["delta"],
            (json{{"type", "thinking_delta"}, {"thinking", "o."}}));
  EXPECT_EQ(events[3]["delta"]["type"], "signature_delta");
  EXPECT_EQ(events[4]["type"], "content_block_stop");
  EXPECT_EQ(events[5]["content_block"]["type"], "text");
  EXPECT_EQ(events[6]["index"], 1);
  EXPECT_EQ(events[7]["type"], "content_block_stop");
  MessagesStyle other = MakeMessagesStyle();
  const json whole = json::parse(other.Whole(
      {{.parts = {{.text = "So.", .is_thought = true}, {.text = "Hi"}}}},
      kMessagesUsage));
  EXPECT_EQ(whole["content"][0]["thinking"], "So.");
  EXPECT_EQ(whole["content"][1]["text"], "Hi");
}

TEST(MessagesJsonTest, TheWholeHasBlocksAndAReason) {
  const auto whole = [](ShownChoice choice) {
    MessagesStyle style = MakeMessagesStyle();
    return json::parse(style.Whole({std::move(choice)}, kMessagesUsage));
  };
  const json called = whole({.parts = {{.text = "Hi"}, {.call = kCall}},
                             .finish_reason = "tool_calls"});
  EXPECT_EQ(called["content"][0], (json{{"type", "text"}, {"text", "Hi"}}));
  EXPECT_EQ(called["content"][1]["input"], (json{{"b", 1}, {"a", 2}}));
  EXPECT_EQ(called["usage"]["input_tokens"], 5);
  EXPECT_EQ(called["usage"]["output_tokens"], 3);
  const json stopped = whole({.finish_reason = "stop", .stop = "X"});
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "X");
  EXPECT_EQ(whole({.finish_reason = "stop"})["stop_reason"], "end_turn");
  EXPECT_EQ(whole({.finish_reason = "length"})["stop_reason"], "max_tokens");
}

TEST(MessagesJsonTest, ErrorsHaveAnthropicsForm) {
  const auto type_of = [](int status) {
    const json error =
        json::parse(MessagesErrorJson({.status = status, .message = "no"}));
    EXPECT_EQ(error["type"], "error");
    EXPECT_EQ(error["error"]["message"], "no");
    return error["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type_of(400), "invalid_request_error");
  EXPECT_EQ(type_of(401), "authentication_error");
  EXPECT_EQ(type_of(413), "request_too_large");
  EXPECT_EQ(type_of(500), "api_error");
  MessagesStyle style = MakeMessagesStyle();
  EXPECT_TRUE(style.Failure({.status = 500}).starts_with("event: error\n"));
}

}  // namespace
}  // namespace winnow
