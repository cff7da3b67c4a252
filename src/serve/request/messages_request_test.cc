#include "serve/request/messages_request.h"

#include <gtest/gtest.h>

#include "serve/request/api_error.h"

namespace winnow {
namespace {

using nlohmann::json;

Result<CompletionRequest> ParseMessages(
    const std::string& members, Endpoint endpoint = Endpoint::kMessages) {
  RequestRules rules;
  rules.vocab_size = 100;
  return ParseCompletionRequest("{" + members + "}", endpoint, rules);
}

std::string MessagesFieldOf(const std::string& members) {
  const auto parsed = ParseMessages("\"max_tokens\":5," + members);
  return parsed.ok() ? "" : FieldNamedIn(parsed.error().message);
}

TEST(MessagesRequestTest, ReadsBlocksAsTurns) {
  const auto parsed = ParseMessages(
      R"("max_tokens":5,"system":[{"type":"text","text":"Be brief."}],)"
      R"("messages":[)"
      R"({"role":"user","content":"Weather?"},)"
      R"({"role":"user","content":[{"type":"text","text":"In ",)"
      R"("cache_control":{"type":"ephemeral"}},)"
      R"({"type":"text","text":"Oslo."}]},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"?"},)"
      R"({"type":"redacted_thinking","data":"x"},)"
      R"({"type":"text","text":"I look."},{"type":"tool_use","id":"c1",)"
      R"("name":"get","input":{"z":1.0,"a":2}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",)"
      R"("content":[{"type":"text","text":"sun"}]},)"
      R"({"type":"text","text":"And?"}]}],"stop_sequences":["x"],)"
      R"("thinking":{"type":"disabled"},"metadata":{"user_id":"u"})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(
      json::parse(parsed->messages_json),
      json::parse(R"([{"role":"system","content":"Be brief."},)"
                  R"({"role":"user","content":"Weather?\nIn Oslo."},)"
                  R"({"role":"assistant","content":"I look.",)"
                  R"("reasoning_content":"?","tool_calls":[)"
                  R"({"id":"c1","type":"function","function":{"name":"get",)"
                  R"("arguments":{"z":1.0,"a":2}}}]},)"
                  R"({"role":"tool","tool_call_id":"c1","content":"sun"},)"
                  R"({"role":"user","content":"And?"}])"));
  // In the order that they were written in.
  EXPECT_NE(parsed->messages_json.find(R"({"z":1.0,"a":2})"),
            std::string::npos);
  EXPECT_EQ(parsed->max_tokens, 5);
  EXPECT_EQ(parsed->stop, std::vector<std::string>{"x"});
  EXPECT_EQ(parsed->ignored,
            (std::vector<std::string>{"metadata",
                                      "messages.content.redacted_thinking"}));
}

TEST(MessagesRequestTest, ReadsTools) {
  const std::string begin =
      R"("max_tokens":5,"messages":[{"role":"user","content":"x"}],)"
      R"("tools":[{"name":"get",)"
      R"("description":"d","input_schema":{"b":1.0,"a":2}}])";
  EXPECT_EQ(ParseMessages(begin)->template_json,
            R"({"tools":[{"type":"function","function":{"name":"get",)"
            R"("description":"d","parameters":{"b":1.0,"a":2}}}]})");
  const auto one = ParseMessages(
      begin +
      R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})");
  EXPECT_TRUE(one->one_call);
  EXPECT_TRUE(ParseMessages(begin + R"(,"tool_choice":{"type":"none"})")
                  ->tools.empty());
  for (const char* choice :
       {R"({"type":"any"})", R"({"type":"tool","name":"get"})"}) {
    const auto forced = ParseMessages(begin + ",\"tool_choice\":" + choice);
    ASSERT_TRUE(forced.ok()) << forced.error().message;
    ASSERT_EQ(forced->forced_tools.size(), 1u);
    EXPECT_EQ(forced->forced_tools[0].name, "get");
    EXPECT_EQ(forced->forced_tools[0].parameters_json, R"({"b":1.0,"a":2})");
  }
  const auto nobody =
      ParseMessages(begin + R"(,"tool_choice":{"type":"tool","name":"set"})");
  EXPECT_EQ(FieldNamedIn(nobody.error().message), "tool_choice");
  const auto other = ParseMessages(begin + R"(,"tool_choice":{"type":"some"})");
  EXPECT_EQ(FieldNamedIn(other.error().message), "tool_choice.type");
}

TEST(MessagesRequestTest, GoesOnWithTheAssistantsLastWords) {
  const std::string begin =
      R"("max_tokens":5,"messages":[{"role":"user","content":"x"},)"
      R"({"role":"assistant","content":"It "}])";
  const auto goes_on = ParseMessages(begin);
  ASSERT_TRUE(goes_on.ok()) << goes_on.error().message;
  EXPECT_TRUE(goes_on->continues_message);
  EXPECT_FALSE(goes_on->add_generation_prompt);
  const auto begins = ParseMessages(begin + R"(,"add_generation_prompt":true)");
  ASSERT_TRUE(begins.ok()) << begins.error().message;
  EXPECT_FALSE(begins->continues_message);
  EXPECT_TRUE(begins->add_generation_prompt);
}

// What a user says nothing in is no turn, and nothing to go on with.
TEST(MessagesRequestTest, AMessageWithoutBlocksIsTheUsers) {
  for (const char* before : {"", R"({"role":"assistant","content":"It "},)"}) {
    const auto parsed = ParseMessages(
        fmt::format(R"("max_tokens":5,"messages":[{}{{"role":"user",)"
                    R"("content":[]}}])",
                    before));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_FALSE(parsed->continues_message);
    EXPECT_TRUE(parsed->add_generation_prompt);
  }
}

// As Claude Code asks.
TEST(MessagesRequestTest, ReadsHowMuchIsToBeThought) {
  const std::string user =
      R"("max_tokens":5,"messages":[{"role":"user","content":"x"}],)";
  const auto asked = ParseMessages(
      user + R"("thinking":{"type":"enabled","budget_tokens":4000},)"
             R"("output_config":{"effort":"high","task_budget":{}},)"
             R"("context_management":{"edits":[]})");
  ASSERT_TRUE(asked.ok()) << asked.error().message;
  EXPECT_EQ(asked->thoughts.thinks, true);
  EXPECT_TRUE(asked->thoughts.shows);
  EXPECT_EQ(asked->thoughts.effort, "high");
  EXPECT_EQ(asked->thoughts.effort_field, "output_config.effort");
  EXPECT_EQ(asked->ignored, (std::vector<std::string>{
                                "context_management", "thinking.budget_tokens",
                                "output_config.task_budget"}));
  const auto none = ParseMessages(user + R"("thinking":{"type":"disabled"})");
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_EQ(none->thoughts.thinks, false);
  EXPECT_FALSE(none->thoughts.shows);
}

TEST(MessagesRequestTest, NamesWhatIsWrong) {
  const std::string user = R"("messages":[{"role":"user","content":"x"}])";
  EXPECT_EQ(FieldNamedIn(ParseMessages(user).error().message), "max_tokens");
  EXPECT_TRUE(ParseMessages(user, Endpoint::kMessageTokens).ok());
  EXPECT_EQ(MessagesFieldOf(R"("messages":[])"), "messages");
  EXPECT_EQ(MessagesFieldOf(R"("messages":[5])"), "messages[0]");
  EXPECT_EQ(MessagesFieldOf(R"("messages":[{"role":"tool","content":"x"}])"),
            "messages[0].role");
  EXPECT_EQ(MessagesFieldOf(R"("messages":[{"role":"user"}])"),
            "messages[0].content");
  EXPECT_EQ(MessagesFieldOf(R"("messages":[{"role":"user","content":[)"
                            R"({"type":"image"}]}])"),
            "messages[0].content[0].type");
  EXPECT_EQ(MessagesFieldOf(
                R"("messages":[{"role":"assistant","content":[)"
                R"({"type":"tool_use","id":"a","name":"b","input":{}}]}])"),
            "messages");
  EXPECT_EQ(MessagesFieldOf(user + R"(,"stop_sequences":[""])"),
            "stop_sequences[0]");
  EXPECT_EQ(MessagesFieldOf(user + R"(,"thinking":{"type":"on"})"),
            "thinking.type");
  EXPECT_EQ(MessagesFieldOf(user + R"(,"output_config":{"effort":"much"})"),
            "output_config.effort");
  EXPECT_EQ(MessagesFieldOf(user + R"(,"tools":[{"type":5,"name":"bash"}])"),
            "tools[0].type");
}

}  // namespace
}  // namespace winnow
