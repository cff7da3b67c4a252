#include "serve/chat_messages.h"

#include <gtest/gtest.h>

#include "serve/api_error.h"

namespace winnow {
namespace {

using nlohmann::json;
using ChatNames = std::vector<std::string>;

struct ToldChat {
  std::string text;
  ChatNames left_out;
};

ToldChat TellChat(const std::string& messages) {
  LeftOutKinds left_out;
  const auto told =
      ChatMessagesJson("[" + messages + "]", JsonLimits(), left_out);
  return {told.ok() ? *told : told.error().message, left_out.names()};
}

struct ChatCase {
  const char* message;
  const char* told;
  ChatNames left_out = {};
};

// Every kind of ChatCompletionMessageParam (openai 3.54.0), and the parts and
// calls that they may have.
TEST(ChatMessagesTest, EveryKindOfMessageIsTold) {
  const std::vector<ChatCase> cases = {
      {R"({"role":"developer","content":"a","name":null})",
       R"({"role":"system","content":"a"})"},
      {R"({"content":[{"type":"text","text":"a"}],"x":[1.0],"role":"user"})",
       R"({"content":[{"type":"text","text":"a"}],"x":[1.0],"role":"user"})"},
      {R"({"role":"user","content":[{"type":"text","text":"a"},)"
       R"({"type":"image_url","image_url":{"url":"u"}},)"
       R"({"type":"input_audio","input_audio":{}},)"
       R"({"type":"file","file":{}}]})",
       R"({"role":"user","content":"a"})",
       {"messages.content.image_url", "messages.content.input_audio",
        "messages.content.file"}},
      {R"({"role":"user","content":[]})", R"({"role":"user","content":""})"},
      {R"({"role":"user","content":[{"type":"image_url"}]})",
       R"({"role":"user","content":"[image_url]"})",
       {"messages.content.image_url"}},
      {R"({"role":"tool","tool_call_id":"c","content":null})",
       R"({"role":"tool","tool_call_id":"c","content":""})"},
      {R"({"role":"tool","tool_call_id":"c"})",
       R"({"role":"tool","content":"","tool_call_id":"c"})"},
      {R"({"role":"tool","content":{"z": 1,"a":2}})",
       R"({"role":"tool","content":"{\"z\": 1,\"a\":2}"})"},
      {R"({"role":"function","name":"f","content":"5"})",
       R"({"role":"tool","name":"f","content":"5"})"},
      {R"({"role":"assistant","content":null,"refusal":"No.","audio":null,)"
       R"("tool_calls":null,"function_call":null})",
       R"({"role":"assistant","content":"No.","refusal":"No."})"},
      {R"({"role":"assistant","content":[{"type":"refusal",)"
       R"("refusal":"No."}]})",
       R"({"role":"assistant","content":"No."})"},
      {R"({"role":"assistant","audio":{"id":"a"}})",
       R"({"role":"assistant","content":""})",
       {"messages.audio"}},
      {R"({"role":"assistant","content":[{"type":"thinking"}]})",
       R"({"role":"assistant","content":""})",
       {"messages.content.thinking"}},
      {R"({"role":"assistant","function_call":{"name":"f","arguments":"{}"}})",
       R"({"role":"assistant","content":null,"tool_calls":[{"id":"",)"
       R"("type":"function","function":{"name":"f","arguments":{}}}]})"},
      {R"({"role":"assistant","tool_calls":[{"id":"c","type":"custom",)"
       R"("custom":{"name":"f","input":"x"}}],"content":""})",
       R"({"role":"assistant","tool_calls":[{"id":"c","type":"function",)"
       R"("function":{"name":"f","arguments":{"input":"x"}}}],"content":""})"},
      {R"({"role":"assistant","tool_calls":[{"id":null,"function":)"
       R"({"name":"f","arguments":null}}]})",
       R"({"role":"assistant","content":null,"tool_calls":[{"id":"",)"
       R"("type":"function","function":{"name":"f","arguments":{}}}]})"},
      {R"({"r\u006fle":"developer","content":"a"})",
       R"({"role":"system","content":"a"})"}};
  for (const ChatCase& each : cases) {
    const ToldChat told = TellChat(std::string(each.message) +
                                   R"(,{"role":"user","content":"?"})");
    EXPECT_EQ(told.text, "[" + std::string(each.told) +
                             R"(,{"role":"user","content":"?"}])");
    EXPECT_EQ(told.left_out, each.left_out) << each.message;
  }
}

// Some templates read parts; the system's text may be placed elsewhere.
TEST(ChatMessagesTest, PartsOfTextStayParts) {
  const std::string parts = R"("content":[{"text":"a","type":"input_text"},)"
                            R"({"type":"text","text":"b","z":1}]})";
  EXPECT_EQ(TellChat(R"({"role":"assistant",)" + parts).text,
            R"([{"role":"assistant","content":[{"type":"text","text":"a"},)"
            R"({"type":"text","text":"b"}]}])");
  EXPECT_EQ(TellChat(R"({"role":"system",)" + parts).text,
            R"([{"role":"system","content":"ab"}])");
}

TEST(ChatMessagesTest, AKindIsNamedOnce) {
  const std::string image =
      R"({"role":"user","content":[{"type":"image_url"}]},)";
  EXPECT_EQ(
      TellChat(image + image + R"({"role":"user","content":"x"})").left_out,
      ChatNames{"messages.content.image_url"});
}

TEST(ChatMessagesTest, WhatIsWrongIsStillNamed) {
  const auto field_of = [](const std::string& messages) {
    return FieldNamedIn(TellChat(messages).text);
  };
  EXPECT_EQ(field_of(R"({"role":"user","content":[{"type":"image_url"}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(field_of(R"({"role":"user","content":5})"), "messages[0].content");
  EXPECT_EQ(field_of(R"({"role":"system"})"), "messages[0].content");
  EXPECT_EQ(field_of(R"({"role":"assistant","tool_calls":5})"),
            "messages[0].tool_calls");
  EXPECT_EQ(field_of(R"({"role":"assistant","tool_calls":[5]})"),
            "messages[0].tool_calls[0]");
  EXPECT_EQ(field_of(R"({"role":"assistant","tool_calls":[{}]})"),
            "messages[0].tool_calls[0].function");
  EXPECT_EQ(field_of(R"({"role":"assistant","tool_calls":[{"function":{}}]})"),
            "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(field_of(R"({"role":"assistant","tool_calls":[{"id":5,)"
                     R"("function":{"name":"f"}}]})"),
            "messages[0].tool_calls[0].id");
  EXPECT_EQ(field_of(R"({"role":"assistant","tool_calls":[)"
                     R"({"type":"custom","custom":{"name":"f"}}]})"),
            "messages[0].tool_calls[0].custom.input");
}

// Turns of other routes.
TEST(ChatMessagesTest, SystemTextsThatFollowAreOneTurn) {
  std::vector<ChatTurn> turns;
  AddSystemText("One.", turns);
  AddSystemText("", turns);
  AddSystemText("Two.", turns);
  turns.push_back({.role = "user", .content = "Hi"});
  AddSystemText("Three.", turns);
  EXPECT_EQ(json::parse(TurnsJson(turns)),
            json::parse(R"([{"role":"system","content":"One.\n\nTwo."},)"
                        R"({"role":"user","content":"Hi"},)"
                        R"({"role":"system","content":"Three."}])"));
}

}  // namespace
}  // namespace winnow
