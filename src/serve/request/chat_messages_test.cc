#include "serve/request/chat_messages.h"

#include <gtest/gtest.h>

#include "serve/request/api_error.h"

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

// A turn that another client has stored, or broken, does not end the chat.
TEST(ChatMessagesTest, WhatAnEarlierTurnLacksIsLeftOutAndNamed) {
  const std::vector<ChatCase> cases = {
      {R"({"role":"user","content":[{"type":"text","text":null},)"
       R"({"type":"text","text":"a"},{"type":"text"},null]})",
       R"({"role":"user","content":"a"})",
       {"messages.content.text", "messages.content"}},
      {R"({"role":"user","content":[{"type":"text","text":null}]})",
       R"({"role":"user","content":""})",
       {"messages.content.text"}},
      {R"({"role":"user","content":["a",{"text":"b"}]})",
       R"({"role":"user","content":"ab"})"},
      {R"({"role":"user","content":{"type":"text","text":"a"}})",
       R"({"role":"user","content":"a"})"},
      {R"({"role":"user","content":5})",
       R"({"role":"user","content":""})",
       {"messages.content"}},
      {R"({"role":"user","content":null})",
       R"({"role":"user","content":""})",
       {"messages.content"}},
      {R"({"role":"system"})",
       R"({"role":"system","content":""})",
       {"messages.content"}},
      {R"({"role":"assistant","content":true})",
       R"({"role":"assistant","content":""})",
       {"messages.content"}},
      {R"({"role":"tool","content":5})", R"({"role":"tool","content":"5"})"},
      {R"({"role":"tool","content":true})",
       R"({"role":"tool","content":"true"})"},
      {R"({"role":"tool","content":["plain", 1.0]})",
       R"({"role":"tool","content":"[\"plain\", 1.0]"})"},
      {R"({"role":"tool","tool_call_id":7,"content":"x"})",
       R"({"role":"tool","tool_call_id":"7","content":"x"})"}};
  for (const ChatCase& each : cases) {
    const ToldChat told = TellChat(std::string(each.message) +
                                   R"(,{"role":"user","content":"?"})");
    EXPECT_EQ(told.text, "[" + std::string(each.told) +
                             R"(,{"role":"user","content":"?"}])");
    EXPECT_EQ(told.left_out, each.left_out) << each.message;
  }
  const ToldChat critic = TellChat(R"({"role":"critic","content":"x"},)"
                                   R"({"role":"user","content":"?"})");
  EXPECT_EQ(critic.text, R"([{"role":"user","content":"?"}])");
  EXPECT_EQ(critic.left_out, ChatNames{"messages.role.critic"});
}

// The call stays, so that its result follows one.
TEST(ChatMessagesTest, WhatACallLacksIsLeftOutAndNamed) {
  const auto call = [](const char* id, const char* name, const char* object) {
    return fmt::format(R"([{{"id":"{}","type":"function","function":)"
                       R"({{"name":"{}","arguments":{}}}}}])",
                       id, name, object);
  };
  struct CallCase {
    std::string calls, told;
    ChatNames left_out = {};
  };
  const std::vector<CallCase> cases = {
      {"{}", "", {"messages.tool_calls"}},
      {"[5,null]", "", {"messages.tool_calls"}},
      {"[{}]", "", {"messages.tool_calls.function"}},
      {R"([{"id":"c","function":{"name":null,"arguments":{"a":1}}}])",
       call("c", "", R"({"a":1})"),
       {"messages.tool_calls.function.name"}},
      {R"([{"id":5,"function":{"name":"f"}}])", call("5", "f", "{}")},
      {R"([{"id":[],"function":{"name":"f"}}])",
       call("", "f", "{}"),
       {"messages.tool_calls.id"}},
      {R"([{"type":"custom","custom":{"name":"f"}}])",
       call("", "f", R"({"input":""})"),
       {"messages.tool_calls.custom.input"}},
      {R"([{"type":"custom"}])", "", {"messages.tool_calls.custom"}}};
  for (const CallCase& each : cases) {
    const ToldChat told =
        TellChat(R"({"role":"assistant","tool_calls":)" + each.calls +
                 R"(},{"role":"user","content":"?"})");
    const json turn = json::parse(told.text)[0];
    EXPECT_EQ(turn.value("tool_calls", json()),
              each.told.empty() ? json() : json::parse(each.told))
        << each.calls;
    EXPECT_EQ(told.left_out, each.left_out) << each.calls;
  }
}

TEST(ChatMessagesTest, WhatIsWrongInTheQuestionIsAnError) {
  const auto field_of = [](const std::string& messages) {
    return FieldNamedIn(TellChat(messages).text);
  };
  EXPECT_EQ(field_of(R"({"role":"user","content":[{"type":"image_url"}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(field_of(R"({"role":"user","content":5})"), "messages[0].content");
  EXPECT_EQ(field_of(R"({"role":"user","content":null})"),
            "messages[0].content");
  EXPECT_EQ(field_of(R"({"role":"user","content":[{"type":"text"}]})"),
            "messages[0].content[0].text");
  EXPECT_EQ(field_of(R"({"role":"critic","content":"x"})"), "messages[0].role");
  // Of earlier turns what no client can mean.
  const std::string question = R"(,{"role":"user","content":"?"})";
  EXPECT_EQ(field_of("5" + question), "messages[0]");
  EXPECT_EQ(field_of(R"({"role":5,"content":"x"})" + question),
            "messages[0].role");
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
