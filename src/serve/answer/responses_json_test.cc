#include "serve/answer/responses_json.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using nlohmann::json;

ResponsesStyle MakeResponsesStyle() {
  return {{.endpoint = Endpoint::kResponses,
           .id = "resp_1",
           .model = "m",
           .created_unix_s = 5},
          R"("tools":[],"store":false)"};
}

// What readers of events see: names and data.
std::vector<json> EventsIn(const std::string& text) {
  std::vector<json> events;
  size_t at = 0;
  while (at < text.size()) {
    EXPECT_EQ(text.compare(at, 7, "event: "), 0) << text.substr(at);
    const size_t line = text.find('\n', at), end = text.find("\n\n", at);
    EXPECT_EQ(text.compare(line, 7, "\ndata: "), 0);
    events.push_back(json::parse(text.substr(line + 7, end - line - 7)));
    EXPECT_EQ(events.back()["type"], text.substr(at + 7, line - at - 7));
    at = end + 2;
  }
  return events;
}

const std::vector<ShownToken> kTokens = {
    {.text = "Hi", .bytes = "Hi", .logprob = -1}};
const ShownChoice kText = {.parts = {{.text = "Hi"}}, .tokens = &kTokens};
const ShownChoice kEnd = {
    .parts = {{.text = " there"},
              {.call = ShownCall{.id = "c1",
                                 .name = "get",
                                 .arguments_json = R"({"a":1})"}}},
    .finish_reason = "tool_calls"};
constexpr AnswerUsage kResponsesUsage = {
    .num_prompt_tokens = 7, .num_generated_tokens = 3, .num_cached_tokens = 2};

TEST(ResponsesJsonTest, EventsTellItemsOneAfterTheOther) {
  ResponsesStyle style = MakeResponsesStyle();
  std::string text = style.Begin(1, {});
  text += style.Piece(kText);
  text += style.Piece(kEnd);
  text += style.End(kResponsesUsage);
  const std::vector<json> events = EventsIn(text);
  std::string types;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    types += events[i]["type"].get<std::string>().substr(9) + " ";
  }
  EXPECT_EQ(types,
            "created in_progress output_item.added content_part.added "
            "output_text.delta output_text.delta output_text.done "
            "content_part.done output_item.done output_item.added "
            "function_call_arguments.delta function_call_arguments.done "
            "output_item.done completed ");
  EXPECT_EQ(events[4]["delta"], "Hi");
  EXPECT_EQ(events[4]["logprobs"][0]["token"], "Hi");
  EXPECT_EQ(events[6]["text"], "Hi there");
  EXPECT_EQ(events[9]["output_index"], 1);
  EXPECT_EQ(events[9]["item"]["arguments"], "");
  EXPECT_EQ(events[4]["item_id"], events[8]["item"]["id"]);
  EXPECT_EQ(events[10]["item_id"], events[12]["item"]["id"]);
  EXPECT_NE(events[4]["item_id"], events[10]["item_id"]);
}

TEST(ResponsesJsonTest, TheWholeIsWhatTheLastEventSays) {
  ResponsesStyle stream = MakeResponsesStyle(), whole = MakeResponsesStyle();
  stream.Begin(1, {});
  stream.Piece(kText);
  stream.Piece(kEnd);
  const json last = EventsIn(stream.End(kResponsesUsage)).back()["response"];
  ShownChoice all = kEnd;
  all.parts[0].text = "Hi there";
  all.tokens = &kTokens;
  EXPECT_EQ(json::parse(whole.Whole({all}, kResponsesUsage)), last);
  EXPECT_EQ(last["status"], "completed");
  EXPECT_EQ(last["store"], false);
  EXPECT_EQ(last["output"][0]["content"][0]["text"], "Hi there");
  EXPECT_EQ(last["output"][0]["content"][0]["logprobs"].size(), 1u);
  EXPECT_EQ(last["output"][1]["arguments"], R"({"a":1})");
  EXPECT_EQ(last["usage"]["total_tokens"], 10);
  EXPECT_EQ(last["usage"]["input_tokens_details"],
            (json{{"cache_write_tokens", 0}, {"cached_tokens", 2}}));
}

TEST(ResponsesJsonTest, AThoughtIsAnItemOfItsOwn) {
  ResponsesStyle style = MakeResponsesStyle();
  std::string text;
  text += style.Piece({.parts = {{.text = "S", .is_thought = true}}});
  text += style.Piece(
      {.parts = {{.text = "o.", .is_thought = true}, {.text = "Hi"}}});
  text += style.Piece({.finish_reason = "stop"});
  const std::vector<json> events = EventsIn(text);
  std::string types;
  for (const json& event : events) {
    types += event["type"].get<std::string>().substr(9) + " ";
  }
  EXPECT_EQ(types,
            "output_item.added content_part.added reasoning_text.delta "
            "reasoning_text.delta reasoning_text.done content_part.done "
            "output_item.done output_item.added content_part.added "
            "output_text.delta output_text.done content_part.done "
            "output_item.done ");
  EXPECT_EQ(events[4]["text"], "So.");
  const json thought = events[6]["item"];
  EXPECT_EQ(thought["type"], "reasoning");
  EXPECT_EQ(thought["id"], events[2]["item_id"]);
  EXPECT_EQ(thought["summary"], json::array());
  EXPECT_EQ(thought["content"],
            json::array({{{"type", "reasoning_text"}, {"text", "So."}}}));
  EXPECT_EQ(events[12]["item"]["content"][0]["text"], "Hi");
  ResponsesStyle cut = MakeResponsesStyle();
  const json whole = json::parse(
      cut.Whole({{.parts = {{.text = "So", .is_thought = true}},
                  .finish_reason = "length"}},
                {.num_generated_tokens = 3, .num_thought_tokens = 2}));
  EXPECT_EQ(whole["output"].size(), 1u);
  EXPECT_EQ(whole["output"][0]["status"], "incomplete");
  EXPECT_EQ(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 2);
}

TEST(ResponsesJsonTest, WhatIsCutIsIncomplete) {
  ResponsesStyle style = MakeResponsesStyle();
  const json cut = json::parse(
      style.Whole({{.parts = {{.text = "H"}}, .finish_reason = "length"}}, {}));
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(cut["output"][0]["status"], "incomplete");
  ResponsesStyle nothing = MakeResponsesStyle();
  const json empty =
      json::parse(nothing.Whole({{.finish_reason = "stop"}}, {}));
  EXPECT_EQ(empty["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesJsonTest, AFailureIsAResponseThatFailed) {
  ResponsesStyle style = MakeResponsesStyle();
  style.Begin(1, {});
  const json event =
      EventsIn(style.Failure({.status = 500, .message = "broken"})).front();
  EXPECT_EQ(event["type"], "response.failed");
  EXPECT_EQ(event["sequence_number"], 2);
  EXPECT_EQ(event["response"]["error"]["message"], "broken");
}

}  // namespace
}  // namespace winnow
