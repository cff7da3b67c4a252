#include "serve/request/input_items.h"

#include <gtest/gtest.h>

#include "serve/request/api_error.h"
#include "serve/request/completion_request.h"

namespace winnow {
namespace {

using nlohmann::json;
using ItemNames = std::vector<std::string>;

struct ToldItems {
  json turns;
  ItemNames left_out;
};

// What the model is told of items, a question behind them left out.
ToldItems TellItems(const std::string& items) {
  RequestRules rules;
  rules.vocab_size = 100;
  const auto parsed = ParseCompletionRequest(
      fmt::format(R"({{"input":[{},{{"role":"user","content":"?"}}]}})", items),
      Endpoint::kResponses, rules);
  EXPECT_TRUE(parsed.ok()) << items << ": " << parsed.error().message;
  if (!parsed.ok()) return {};
  json turns = json::parse(parsed->messages_json);
  turns.erase(turns.size() - 1);
  return {std::move(turns), parsed->ignored};
}

std::string ItemFieldOf(const std::string& items) {
  const auto parsed = ParseCompletionRequest(
      fmt::format(R"({{"input":[{}]}})", items), Endpoint::kResponses,
      {.defaults = {}, .json = {}, .max_n = 1, .vocab_size = 100});
  return parsed.ok() ? "" : FieldNamedIn(parsed.error().message);
}

// A call of the assistant's, as templates read it.
json ACall(const std::string& id, const std::string& name,
           const json& arguments) {
  return {{"role", "assistant"},
          {"content", nullptr},
          {"tool_calls",
           {{{"id", id},
             {"type", "function"},
             {"function", {{"name", name}, {"arguments", arguments}}}}}}};
}

json AResult(const std::string& id, const std::string& text) {
  return {{"role", "tool"}, {"tool_call_id", id}, {"content", text}};
}

json AMessage(const std::string& role, const std::string& text) {
  return {{"role", role}, {"content", text}};
}

struct ItemCase {
  const char* item;
  std::vector<json> turns;
  ItemNames left_out = {};
};

void ExpectTold(const std::vector<ItemCase>& cases) {
  for (const ItemCase& each : cases) {
    const ToldItems told = TellItems(each.item);
    EXPECT_EQ(told.turns, json(each.turns)) << each.item;
    EXPECT_EQ(told.left_out, each.left_out) << each.item;
  }
}

// Every kind of ResponseInputItemParam (openai 3.54.0) that has a text.
TEST(InputItemsTest, WhatHasATextIsTold) {
  const std::vector<ItemCase> cases = {
      {R"({"type":"function_call","call_id":"c","name":"f",)"
       R"("arguments":"{\"a\":1}","namespace":null,"status":null})",
       {ACall("c", "f", {{"a", 1}})}},
      {R"({"type":"function_call","call_id":"c","name":"f",)"
       R"("arguments":"{\"a\": "})",
       {ACall("c", "f", {{"INVALID_JSON", "{\"a\": "}})}},
      {R"({"type":"function_call","id":"fc","name":"f","arguments":{"a":1}})",
       {ACall("fc", "f", {{"a", 1}})}},
      {R"({"type":"function_call_output","call_id":"c","output":null})",
       {AResult("c", "")}},
      {R"({"type":"function_call_output","call_id":null,"output":[]})",
       {AResult("", "")}},
      {R"({"type":"function_call_output","call_id":"c","output":[)"
       R"({"type":"input_text","text":"a"},)"
       R"({"type":"input_image","image_url":"data:"}]})",
       {AResult("c", "a")},
       {"input.output.input_image"}},
      {R"({"type":"custom_tool_call","call_id":"c","name":"apply_patch",)"
       R"("input":"*** Begin"})",
       {ACall("c", "apply_patch", {{"input", "*** Begin"}})}},
      {R"({"type":"custom_tool_call_output","call_id":"c","output":"Done"})",
       {AResult("c", "Done")}},
      {R"({"type":"local_shell_call","id":"l","call_id":"c","status":)"
       R"("completed","action":{"type":"exec","command":["ls"],"env":{}}})",
       {ACall("c", "local_shell",
              {{"type", "exec"},
               {"command", json::array({"ls"})},
               {"env", json::object()}})}},
      {R"({"type":"local_shell_call_output","id":"c","output":"a.txt"})",
       {AResult("c", "a.txt")}},
      {R"({"type":"shell_call","call_id":"c","action":{"commands":["ls"]}})",
       {ACall("c", "shell", {{"commands", json::array({"ls"})}})}},
      {R"({"type":"shell_call_output","call_id":"c","output":[)"
       R"({"stdout":"x","stderr":"","outcome":{"type":"exit"}}]})",
       {AResult("c", R"([{"stdout":"x","stderr":"","outcome":)"
                     R"({"type":"exit"}}])")}},
  };
  ExpectTold(cases);
}

TEST(InputItemsTest, CallsOfOtherKindsAndWordsAreTold) {
  const std::vector<ItemCase> cases = {
      {R"({"type":"apply_patch_call","call_id":"c","status":"completed",)"
       R"("operation":{"type":"delete_file","path":"a"}})",
       {ACall("c", "apply_patch", {{"type", "delete_file"}, {"path", "a"}})}},
      {R"({"type":"apply_patch_call_output","call_id":"c","status":"failed"})",
       {AResult("c", "failed")}},
      {R"({"type":"computer_call","id":"i","call_id":"c","action":)"
       R"({"type":"wait"},"pending_safety_checks":[],"status":"completed"})",
       {ACall("c", "computer", {{"type", "wait"}})}},
      {R"({"type":"computer_call","id":"i","call_id":"c","actions":[)"
       R"({"type":"wait"}]})",
       {ACall("c", "computer",
              {{"actions", json::array({{{"type", "wait"}}})}})}},
      {R"({"type":"program","id":"i","call_id":"c","code":"1","fingerprint":)"
       R"("f"})",
       {ACall("c", "program", {{"code", "1"}})}},
      {R"({"type":"program_output","call_id":"c","result":"2"})",
       {AResult("c", "2")}},
      {R"({"type":"message","role":"assistant","phase":null,"content":[)"
       R"({"type":"refusal","refusal":"No."}]})",
       {AMessage("assistant", "No.")}},
      {R"({"role":"assistant","content":[]})", {AMessage("assistant", "")}},
      {R"({"role":"user","content":[{"type":"input_image"},)"
       R"({"type":"input_file"}]})",
       {AMessage("user", "[input_image][input_file]")},
       {"input.content.input_image", "input.content.input_file"}}};
  ExpectTold(cases);
}

// What a server ran is told as a call and its result, where it has one.
TEST(InputItemsTest, HostedCallsAreToldWithTheirResults) {
  const std::vector<ItemCase> cases = {
      {R"({"type":"mcp_call","id":"m","name":"f","server_label":"s",)"
       R"("arguments":"{}","output":"5","error":null})",
       {ACall("m", "f", json::object()), AResult("m", "5")}},
      {R"({"type":"mcp_call","id":"m","name":"f","server_label":"s",)"
       R"("arguments":"","error":{"type":"x"}})",
       {ACall("m", "f", json::object()), AResult("m", R"({"type":"x"})")}},
      {R"({"type":"mcp_call","id":"m","name":"f","arguments":"{}"})",
       {},
       {"input.mcp_call"}},
      {R"({"type":"file_search_call","id":"m","queries":["q"],)"
       R"("results":[{"text":"t"}]})",
       {ACall("m", "file_search", {{"queries", json::array({"q"})}}),
        AResult("m", R"([{"text":"t"}])")}},
      {R"({"type":"file_search_call","id":"m","queries":["q"],)"
       R"("results":null})",
       {},
       {"input.file_search_call"}},
      {R"({"type":"code_interpreter_call","id":"m","code":"1","outputs":[)"
       R"({"type":"logs","logs":"2"},{"type":"image","url":"u"}]})",
       {ACall("m", "code_interpreter", {{"code", "1"}}),
        AResult("m", "2[image]")},
       {"input.outputs.image"}},
      {R"({"type":"code_interpreter_call","id":"m","code":null,)"
       R"("outputs":null})",
       {},
       {"input.code_interpreter_call"}},
      {R"({"type":"computer_call_output","call_id":"c","output":)"
       R"({"type":"computer_screenshot"}})",
       {AResult("c", "[computer_screenshot]")},
       {"input.output.computer_screenshot"}}};
  ExpectTold(cases);
}

TEST(InputItemsTest, WhatHasNoTextIsNamed) {
  for (const std::string kind :
       {"web_search_call", "image_generation_call", "mcp_list_tools",
        "mcp_approval_request", "mcp_approval_response", "compaction",
        "compaction_trigger", "item_reference", "additional_tools",
        "configuration_update", "tool_search_call", "tool_search_output",
        "ghost_snapshot", "what_comes_after_us"}) {
    const std::string item = fmt::format(R"({{"type":"{}","id":"i"}})", kind);
    const ToldItems told = TellItems(item + "," + item);
    EXPECT_EQ(told.turns, json::array());
    EXPECT_EQ(told.left_out, ItemNames{"input." + kind});
    EXPECT_EQ(ItemFieldOf(item), "input") << "nothing is left";
  }
  EXPECT_EQ(TellItems(R"({"id":"msg_1"})").left_out,
            ItemNames{"input.item_reference"});
  EXPECT_EQ(TellItems(R"({"id":"msg_1","type":null})").left_out,
            ItemNames{"input.item_reference"});
}

TEST(InputItemsTest, AThoughtMayBeASummary) {
  const std::string said = R"(,{"role":"assistant","content":"Yes."})";
  const auto thought_of = [&](const std::string& members) {
    return TellItems(R"({"type":"reasoning","id":"r",)" + members + "}" + said);
  };
  const std::string summary =
      R"("summary":[{"type":"summary_text","text":"So."}])";
  const ToldItems told =
      thought_of(summary + R"(,"content":null,"encrypted_content":"x")");
  EXPECT_EQ(told.turns[0]["reasoning_content"], "So.");
  EXPECT_EQ(told.left_out, ItemNames());
  EXPECT_EQ(thought_of(summary + R"(,"content":[{"type":"reasoning_text",)"
                                 R"("text":"Well."}])")
                .turns[0]["reasoning_content"],
            "Well.");
  const ToldItems hidden =
      thought_of(R"("summary":[],"encrypted_content":"x")");
  EXPECT_FALSE(hidden.turns[0].contains("reasoning_content"));
  EXPECT_EQ(hidden.left_out, ItemNames{"input.reasoning.encrypted_content"});
}

TEST(InputItemsTest, WhatAnItemLacksIsLeftOutAndNamed) {
  const std::vector<ItemCase> cases = {
      {R"({"type":"custom_tool_call","call_id":"c","name":"f","input":null})",
       {ACall("c", "f", {{"input", ""}})},
       {"input.custom_tool_call.input"}},
      {R"({"type":"function_call","call_id":5,"arguments":"{}"})",
       {ACall("5", "", json::object())},
       {"input.function_call.name"}},
      {R"({"type":"function_call","call_id":[],"id":"i","name":"f"})",
       {ACall("i", "f", json::object())},
       {"input.function_call.call_id"}},
      {R"({"type":"function_call_output","call_id":5,"output":5})",
       {AResult("5", "5")}},
      {R"({"type":"function_call_output","call_id":"c","output":["a"]})",
       {AResult("c", R"(["a"])")}},
      {R"({"type":"program_output","call_id":"c","result":false})",
       {AResult("c", "false")}},
      {R"({"role":"user","content":null})",
       {AMessage("user", "")},
       {"input.content"}},
      {R"({"role":"user","content":[{"type":"input_text","text":null}]})",
       {AMessage("user", "")},
       {"input.content.input_text"}},
      {R"({"role":"user","content":[{"text":"x"}]})", {AMessage("user", "x")}},
      {R"({"role":"developer","content":null})", {}, {"input.content"}},
      {R"({"role":"robot","content":"x"})", {}, {"input.role.robot"}},
      {R"({"type":"reasoning","content":[5],"summary":5})",
       {},
       {"input.content"}},
      {R"({"type":5})", {}, {"input.type"}}};
  ExpectTold(cases);
}

TEST(InputItemsTest, WhatIsWrongInTheQuestionIsAnError) {
  EXPECT_EQ(ItemFieldOf("5"), "input[0]");
  EXPECT_EQ(ItemFieldOf(R"({"type":5})"), "input[0].type");
  EXPECT_EQ(ItemFieldOf(R"({"content":"x"},{"role":"user","content":"?"})"),
            "input[0].role");
  EXPECT_EQ(ItemFieldOf(R"({"role":"user","content":[{"text":"x"}]})"),
            "input[0].content[0].type");
  // What is asked now cannot be told at all.
  EXPECT_EQ(ItemFieldOf(R"({"role":"user","content":"x"},{"role":"user",)"
                        R"("content":[{"type":"input_image"}]})"),
            "input[1].content[0].type");
}

}  // namespace
}  // namespace winnow
