#include "serve/request/message_blocks.h"

#include <gtest/gtest.h>

#include "serve/request/api_error.h"
#include "serve/request/completion_request.h"

namespace winnow {
namespace {

using nlohmann::json;
using BlockNames = std::vector<std::string>;

Result<CompletionRequest> ReadSaid(const std::string& messages) {
  RequestRules rules;
  rules.vocab_size = 100;
  return ParseCompletionRequest(
      fmt::format(R"({{"max_tokens":5,"messages":[{}]}})", messages),
      Endpoint::kMessages, rules);
}

std::string Said(const char* role, const std::string& blocks) {
  return fmt::format(R"({{"role":"{}","content":[{}]}})", role, blocks);
}

struct ToldBlocks {
  json turns;
  BlockNames left_out;
};

// What the model is told of a message, a question behind it left out.
ToldBlocks TellBlocks(const char* role, const std::string& blocks) {
  const auto parsed =
      ReadSaid(Said(role, blocks) + R"(,{"role":"assistant","content":"?"},)"
                                    R"({"role":"user","content":"!"})");
  EXPECT_TRUE(parsed.ok()) << blocks << ": " << parsed.error().message;
  if (!parsed.ok()) return {};
  json turns = json::parse(parsed->messages_json);
  turns.erase(turns.size() - 1);
  return {std::move(turns), parsed->ignored};
}

std::string BlockFieldOf(const std::string& messages) {
  const auto parsed = ReadSaid(messages);
  return parsed.ok() ? "" : FieldNamedIn(parsed.error().message);
}

struct BlockCase {
  const char* block;
  const char* text;
  BlockNames left_out = {};
};

// Every kind of ContentBlockParam (anthropic 2.12.0, beta ones too) that a user
// may send and that is no result.
TEST(MessageBlocksTest, WhatTheUserSendsIsToldAsText) {
  const std::vector<BlockCase> cases = {
      {R"({"type":"text","text":"a","citations":null,"cache_control":null})",
       "a"},
      {R"({"type":"document","title":"T","context":"C","source":)"
       R"({"type":"text","media_type":"text/plain","data":"a"}},)"
       R"({"type":"text","text":"b"})",
       "T\nC\na\nb"},
      {R"({"type":"document","title":null,"source":{"type":"content",)"
       R"("content":[{"type":"text","text":"a"},{"type":"image"}]}})",
       "a",
       {"messages.content.image"}},
      {R"({"type":"document","source":{"type":"content","content":"a"}})", "a"},
      {R"({"type":"text","text":"a"},{"type":"document","source":)"
       R"({"type":"base64","media_type":"application/pdf","data":"x"}})",
       "a",
       {"messages.content.document"}},
      {R"({"type":"document","source":{"type":"url","url":"u"}})",
       "[document]",
       {"messages.content.document"}},
      {R"({"type":"document","source":{"type":"file","file_id":"f"}})",
       "[document]",
       {"messages.content.document"}},
      {R"({"type":"search_result","source":"S","title":"T","content":)"
       R"([{"type":"text","text":"a"},{"type":"text","text":"b"}]})",
       "T\nS\nab"},
      {R"({"type":"image","source":{"type":"base64","data":"x"}})",
       "[image]",
       {"messages.content.image"}},
      {R"({"type":"container_upload","file_id":"f"},)"
       R"({"type":"text","text":"a"})",
       "a",
       {"messages.content.container_upload"}},
      {R"({"type":"compaction","content":"We talked."})", "We talked."},
      {R"({"type":"text","text":"a"},{"type":"compaction","content":null})",
       "a",
       {"messages.content.compaction"}},
      {R"({"type":"what_comes_after_us","text":"a"})",
       "[what_comes_after_us]",
       {"messages.content.what_comes_after_us"}},
      {"", ""}};
  for (const BlockCase& each : cases) {
    const ToldBlocks told = TellBlocks("user", each.block);
    ASSERT_FALSE(told.turns.empty());
    EXPECT_EQ(told.turns[0], json({{"role", "user"}, {"content", each.text}}))
        << each.block;
    EXPECT_EQ(told.left_out, each.left_out) << each.block;
  }
}

TEST(MessageBlocksTest, AResultIsATurn) {
  const std::vector<BlockCase> cases = {
      {R"("content":null)", ""},
      {R"("is_error":true)", ""},
      {R"("content":[])", ""},
      {R"("content":"5","is_error":null,"toolset_name":null)", "5"},
      {R"("content":[{"type":"text","text":"a"},{"type":"image"}])",
       "a",
       {"messages.content.image"}},
      {R"("content":[{"type":"image"}])",
       "[image]",
       {"messages.content.image"}},
      {R"("content":[{"type":"tool_reference","tool_name":"f"},)"
       R"({"type":"tool_reference","tool_name":"g"}])",
       "f\ng"},
      {R"("content":[{"type":"browser_state","tabs":[]}])",
       "[browser_state]",
       {"messages.content.browser_state"}}};
  for (const BlockCase& each : cases) {
    const ToldBlocks told = TellBlocks(
        "user", fmt::format(R"({{"type":"tool_result","tool_use_id":"c",{}}})",
                            each.block));
    EXPECT_EQ(
        told.turns[0],
        json({{"role", "tool"}, {"tool_call_id", "c"}, {"content", each.text}}))
        << each.block;
    EXPECT_EQ(told.left_out, each.left_out) << each.block;
  }
}

// A call that a server ran, its result, and what the assistant said around
// them.
TEST(MessageBlocksTest, WhatAServerRanIsACallAndItsResult) {
  const std::vector<BlockCase> cases = {
      {R"("type":"web_search_tool_result","content":[)"
       R"({"type":"web_search_result","title":"T","url":"U",)"
       R"("encrypted_content":"x","page_age":null},)"
       R"({"type":"web_search_result","title":"V","url":"W",)"
       R"("encrypted_content":"x","page_age":"1 day"}])",
       "T\nU\nV\nW\n1 day",
       {"messages.content.web_search_result.encrypted_content"}},
      {R"("type":"web_search_tool_result","content":)"
       R"({"type":"web_search_tool_result_error","error_code":"e"})",
       R"({"error_code":"e"})"},
      {R"("type":"web_fetch_tool_result","content":)"
       R"({"type":"web_fetch_result","url":"U","content":)"
       R"({"type":"document","source":{"type":"text","data":"a"}}})",
       "U\na"},
      {R"("type":"code_execution_tool_result","content":)"
       R"({"type":"code_execution_result","stdout":"1","return_code":0})",
       R"({"stdout":"1","return_code":0})"},
      {R"("type":"tool_search_tool_result","content":)"
       R"({"type":"tool_search_tool_search_result","tool_references":)"
       R"([{"type":"tool_reference","tool_name":"f"}]})",
       "f"},
      {R"("type":"mcp_tool_result","content":[{"type":"text","text":"a"}])",
       "a"},
      {R"("type":"advisor_tool_result","content":)"
       R"({"type":"advisor_result","text":"a"})",
       R"({"text":"a"})"}};
  for (const BlockCase& each : cases) {
    const ToldBlocks told = TellBlocks(
        "assistant",
        fmt::format(R"({{"type":"text","text":"I look."}},)"
                    R"({{"type":"server_tool_use","id":"s","name":"n",)"
                    R"("input":{{"q":1.0}}}},{{"tool_use_id":"s",{}}},)"
                    R"({{"type":"text","text":"Found."}})",
                    each.block));
    const json call = {
        {"id", "s"},
        {"type", "function"},
        {"function", {{"name", "n"}, {"arguments", {{"q", 1.0}}}}}};
    EXPECT_EQ(
        told.turns,
        json::array(
            {{{"role", "assistant"},
              {"content", "I look."},
              {"tool_calls", json::array({call})}},
             {{"role", "tool"}, {"tool_call_id", "s"}, {"content", each.text}},
             {{"role", "assistant"}, {"content", "Found.\n?"}}}))
        << each.block;
    EXPECT_EQ(told.left_out, each.left_out) << each.block;
  }
}

TEST(MessageBlocksTest, OfTheAssistantTheRestIsLeftOut) {
  for (const std::string kind :
       {"redacted_thinking", "server_tool_use", "mcp_tool_use",
        "web_search_tool_result", "code_execution_tool_result", "image",
        "container_upload", "mcp_tool_listing", "fallback", "tool_addition",
        "tool_removal"}) {
    const ToldBlocks told = TellBlocks(
        "assistant",
        fmt::format(R"({{"type":"{}","id":"s","tool_use_id":"s"}})", kind));
    // No word is put into its mouth.
    EXPECT_EQ(told.turns,
              json::parse(R"([{"role":"assistant","content":"?"}])"));
    EXPECT_EQ(told.left_out, BlockNames{"messages.content." + kind});
  }
}

TEST(MessageBlocksTest, ASystemsMessageMayStandAnywhere) {
  const auto turns = [](const std::string& messages) {
    const auto parsed = ReadSaid(messages);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return json::parse(parsed->messages_json);
  };
  const std::string user = R"({"role":"user","content":"Hi"})";
  const json system = {{"role", "system"}, {"content", "Rule."}};
  const json said = {{"role", "user"}, {"content", "Hi"}};
  EXPECT_EQ(turns(R"({"role":"system","content":"Rule."},)" + user),
            json::array({system, said}));
  EXPECT_EQ(turns(user + R"(,{"role":"system","content":[)"
                         R"({"type":"text","text":"Rule."},)"
                         R"({"type":"tool_addition","tool":{}}]})"),
            json::array({said, system}));
  // Of one turn of the user's alone.
  const std::string passing =
      R"(,{"role":"system","content":"Rule.","clear_at":"next_user_message"})";
  EXPECT_EQ(turns(user + passing), json::array({said, system}));
  EXPECT_EQ(turns(user + passing + "," + user)[0]["content"], "Hi\nHi");
  const auto empty =
      ReadSaid(user + R"(,{"role":"system","output_config":{"effort":"low"}})");
  ASSERT_TRUE(empty.ok()) << empty.error().message;
  EXPECT_EQ(empty->ignored, BlockNames{"messages.output_config"});
}

struct LackingCase {
  const char* message;
  json turns;
  BlockNames left_out = {};
};

TEST(MessageBlocksTest, WhatAnEarlierTurnLacksIsLeftOutAndNamed) {
  const auto turn = [](const char* role, const char* text) {
    return json::array({{{"role", role}, {"content", text}}});
  };
  const auto result = [](const char* id, const char* text) {
    return json::array(
        {{{"role", "tool"}, {"tool_call_id", id}, {"content", text}}});
  };
  const std::vector<LackingCase> cases = {
      {R"({"role":"user","content":null})",
       turn("user", ""),
       {"messages.content"}},
      {R"({"role":"user","content":[{"type":"text","text":null},null,"a"]})",
       turn("user", "a"),
       {"messages.content.text", "messages.content"}},
      {R"({"role":"user","content":[{"type":"document"}]})",
       turn("user", "[document]"),
       {"messages.content.document"}},
      {R"({"role":"user","content":{"type":"text","text":"a"}})",
       turn("user", "a")},
      {R"({"role":"user","content":[{"type":"tool_result","content":"5"}]})",
       result("", "5"),
       {"messages.content.tool_result.tool_use_id"}},
      {R"({"role":"user","content":[{"type":"tool_result","tool_use_id":5,)"
       R"("content":[true, 1.0]}]})",
       result("5", "[true, 1.0]")},
      {R"({"role":"developer","content":"Rule."})", turn("system", "Rule.")},
      {R"({"role":"critic","content":"x"})",
       json::array(),
       {"messages.role.critic"}}};
  const std::string behind = R"(,{"role":"assistant","content":"?"},)"
                             R"({"role":"user","content":"!"})";
  for (const LackingCase& each : cases) {
    const auto parsed = ReadSaid(each.message + behind);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    json turns = json::parse(parsed->messages_json);
    turns.erase(turns.size() - 1);
    turns.erase(turns.size() - 1);
    EXPECT_EQ(turns, each.turns) << each.message;
    EXPECT_EQ(parsed->ignored, each.left_out) << each.message;
  }
  const ToldBlocks thought = TellBlocks("assistant", R"({"type":"thinking"})");
  EXPECT_EQ(thought.turns, turn("assistant", "?"));
  EXPECT_EQ(thought.left_out, BlockNames{"messages.content.thinking.thinking"});
  const ToldBlocks call =
      TellBlocks("assistant", R"({"type":"tool_use","id":5})");
  EXPECT_EQ(call.turns[0]["tool_calls"][0]["id"], "5");
  EXPECT_EQ(call.left_out, BlockNames{"messages.content.tool_use.name"});
}

// A model reads their order.
TEST(MessageBlocksTest, MembersStayInTheirOrder) {
  const auto parsed = ReadSaid(
      R"({"role":"user","content":"Hi"},{"role":"assistant","content":[)"
      R"({"type":"server_tool_use","id":"s","name":"n","input":{}},)"
      R"({"type":"code_execution_tool_result","tool_use_id":"s","content":)"
      R"({"type":"code_execution_result","stdout":"1","b": 1.0,"a":{"d":2,)"
      R"("c":3}}}]},{"role":"user","content":"Go"})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(
      parsed->messages_json,
      R"([{"role":"user","content":"Hi"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"id":"s","type":"function","function":{"name":"n",)"
      R"("arguments":{}}}]},{"role":"tool","content":"{\"stdout\":\"1\",)"
      R"(\"b\":1.0,\"a\":{\"d\":2,\"c\":3}}","tool_call_id":"s"},)"
      R"({"role":"user","content":"Go"}])");
}

TEST(MessageBlocksTest, WhatIsWrongInTheQuestionIsAnError) {
  const std::string image = R"({"type":"image"})";
  // What is asked now cannot be told at all; with words it can.
  EXPECT_EQ(BlockFieldOf(Said("user", image)), "messages[0].content[0].type");
  EXPECT_EQ(BlockFieldOf(Said("user", image + R"(,{"type":"text",)"
                                              R"("text":"x"})")),
            "");
  EXPECT_EQ(BlockFieldOf(Said("user", "5")), "messages[0].content[0]");
  EXPECT_EQ(BlockFieldOf(Said("user", R"({"text":"x"})")),
            "messages[0].content[0].type");
  EXPECT_EQ(BlockFieldOf(Said("user", R"({"type":"text"})")),
            "messages[0].content[0].text");
  EXPECT_EQ(BlockFieldOf(Said("user", R"({"type":"tool_result"})")),
            "messages[0].content[0].tool_use_id");
  EXPECT_EQ(BlockFieldOf(Said("user", R"({"type":"document"})")),
            "messages[0].content[0].source");
  EXPECT_EQ(BlockFieldOf(R"({"role":"critic","content":"x"})"),
            "messages[0].role");
}

}  // namespace
}  // namespace winnow
