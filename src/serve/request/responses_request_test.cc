#include "serve/request/responses_request.h"

#include <gtest/gtest.h>

#include "serve/request/api_error.h"

namespace winnow {
namespace {

using nlohmann::json;

Result<CompletionRequest> ParseResponses(const std::string& body) {
  RequestRules rules;
  rules.vocab_size = 100;
  return ParseCompletionRequest(body, Endpoint::kResponses, rules);
}

json MessagesOf(const std::string& body) {
  const auto parsed = ParseResponses(body);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? json::parse(parsed->messages_json) : json();
}

std::string ResponsesFieldOf(const std::string& body) {
  const auto parsed = ParseResponses(body);
  return parsed.ok() ? "" : FieldNamedIn(parsed.error().message);
}

TEST(ResponsesRequestTest, ReadsInputInEveryForm) {
  EXPECT_EQ(MessagesOf(R"({"input":"Hi"})"),
            json::parse(R"([{"role":"user","content":"Hi"}])"));
  EXPECT_EQ(
      MessagesOf(
          R"({"instructions":"Be brief.","input":[)"
          R"({"role":"developer","content":"Now."},)"
          R"({"type":"message","role":"user","content":[)"
          R"({"type":"input_text","text":"What "},)"
          R"({"type":"input_text","text":"time?"}]},)"
          R"({"type":"message","id":"msg_1","status":"completed",)"
          R"("role":"assistant","content":[{"type":"output_text",)"
          R"("annotations":[],"text":"I look."}]},)"
          R"({"type":"function_call","id":"fc_1","call_id":"c1",)"
          R"("name":"time","arguments":"{\"z\":1.0,\"a\":2}"},)"
          R"({"type":"function_call","call_id":"c2","name":"date",)"
          R"("arguments":""},)"
          R"({"type":"function_call_output","call_id":"c1","output":"5"},)"
          R"({"type":"function_call_output","call_id":"c2","output":[)"
          R"({"type":"input_text","text":"May"}]}]})"),
      json::parse(R"([{"role":"system","content":"Be brief.\n\nNow."},)"
                  R"({"role":"user","content":"What time?"},)"
                  R"({"role":"assistant","content":"I look.","tool_calls":[)"
                  R"({"id":"c1","type":"function","function":{"name":"time",)"
                  R"("arguments":{"z":1.0,"a":2}}},)"
                  R"({"id":"c2","type":"function","function":{"name":"date",)"
                  R"("arguments":{}}}]},)"
                  R"({"role":"tool","tool_call_id":"c1","content":"5"},)"
                  R"({"role":"tool","tool_call_id":"c2","content":"May"}])"));
}

// As Codex sends back what it got.
TEST(ResponsesRequestTest, AThoughtIsOfTheTurnBehindIt) {
  const std::string thought =
      R"({"type":"reasoning","id":"rs_1","summary":[],"content":[)"
      R"({"type":"reasoning_text","text":"So."}],"encrypted_content":null},)";
  EXPECT_EQ(
      MessagesOf(R"({"input":[{"type":"reasoning","summary":[]},)" + thought +
                 R"({"role":"assistant","content":"Yes."},)" + thought +
                 R"({"type":"function_call","call_id":"c1","name":"f",)"
                 R"("arguments":"{}"},)" +
                 thought + R"({"role":"user","content":"And?"}]})"),
      json::parse(
          R"([{"role":"assistant","content":"Yes.","reasoning_content":"So."},)"
          R"({"role":"assistant","content":null,"reasoning_content":"So.",)"
          R"("tool_calls":[{"id":"c1","type":"function","function":)"
          R"({"name":"f","arguments":{}}}]},)"
          R"({"role":"assistant","content":"","reasoning_content":"So."},)"
          R"({"role":"user","content":"And?"}])"));
}

TEST(ResponsesRequestTest, ReadsHowMuchIsToBeThought) {
  const auto parsed = ParseResponses(
      R"({"input":"x","reasoning":{"effort":"low","summary":"auto"},)"
      R"("include_reasoning":false,"reasoning_effort":5})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->thoughts.effort, "low");
  EXPECT_FALSE(parsed->thoughts.shows);
  EXPECT_EQ(parsed->ignored, (std::vector<std::string>{"reasoning_effort",
                                                       "reasoning.summary"}));
  const json echo = json::parse("{" + parsed->echo_json + "}");
  EXPECT_EQ(echo["reasoning"]["effort"], "low");
}

// Those that OpenAI's servers run themselves.
TEST(ResponsesRequestTest, ToolsOfOtherKindsAreLeftOut) {
  const auto parsed = ParseResponses(
      R"({"input":"x","tools":[{"type":"web_search"},)"
      R"({"type":"function","name":"f"},{"type":"custom","name":"g"}]})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->template_json,
            R"({"tools":[{"type":"function","function":{"name":"f"}}]})");
  EXPECT_EQ(parsed->ignored,
            (std::vector<std::string>{"tools.web_search", "tools.custom"}));
  const auto none =
      ParseResponses(R"({"input":"x","tools":[{"type":"web_search"}]})");
  EXPECT_EQ(none->template_json, "{}");
}

// ResponseIncludable (openai 3.54.0), but for those that are followed.
TEST(ResponsesRequestTest, WhatCannotBeIncludedIsNamed) {
  for (const std::string name :
       {"file_search_call.results", "web_search_call.results",
        "web_search_call.action.sources", "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs"}) {
    const auto parsed = ParseResponses(fmt::format(
        R"({{"input":"x","include":["{}","reasoning.encrypted_content"]}})",
        name));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->ignored, std::vector<std::string>{"include." + name});
  }
}

TEST(ResponsesRequestTest, NamesWhatIsWrong) {
  EXPECT_EQ(ResponsesFieldOf("{}"), "input");
  EXPECT_EQ(ResponsesFieldOf(R"({"input":[]})"), "input");
  EXPECT_EQ(ResponsesFieldOf(R"({"input":[5]})"), "input[0]");
  EXPECT_EQ(ResponsesFieldOf(R"({"input":[{"role":"robot","content":"x"}]})"),
            "input[0].role");
  EXPECT_EQ(ResponsesFieldOf(R"({"input":[{"role":"user"}]})"),
            "input[0].content");
  EXPECT_EQ(ResponsesFieldOf(R"({"input":[{"role":"user","content":[)"
                             R"({"type":"input_image"}]}]})"),
            "input[0].content[0].type");
  EXPECT_EQ(ResponsesFieldOf(R"({"input":[{"type":"item_reference"}]})"),
            "input");
  EXPECT_EQ(
      ResponsesFieldOf(R"({"input":[{"type":"reasoning","content":[5]}]})"),
      "input");
  EXPECT_EQ(ResponsesFieldOf(R"({"input":"x","reasoning":{"effort":5}})"),
            "reasoning.effort");
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"previous_response_id", "\"resp_1\""},
           {"conversation", "\"conv_1\""},
           {"background", "true"},
           {"truncation", "\"auto\""},
           {"include", "5"},
           {"tool_choice", "\"required\""},
           {"max_output_tokens", "0"},
           {"top_logprobs", "21"}}) {
    EXPECT_EQ(ResponsesFieldOf(
                  fmt::format(R"({{"input":"x","{}":{}}})", field, value)),
              field);
  }
  EXPECT_EQ(
      ResponsesFieldOf(R"({"input":"x","text":{"format":{"type":"xml"}}})"),
      "text.format.type");
}

TEST(ResponsesRequestTest, SaysAgainWhatWasAsked) {
  const auto parsed = ParseResponses(
      R"({"input":"x","tools":[{"type":"function","name":"f","strict":true,)"
      R"("description":"d","parameters":{"b":1.0,"a":2}}],)"
      R"("max_output_tokens":9,"top_logprobs":2,"temperature":0.3,)"
      R"("text":{"format":{"type":"text"}},"include":[)"
      R"("reasoning.encrypted_content"],"metadata":{"k":"v"}})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->template_json,
            R"({"tools":[{"type":"function","function":{"name":"f",)"
            R"("description":"d","parameters":{"b":1.0,"a":2}}}]})");
  ASSERT_EQ(parsed->tools.size(), 1u);
  EXPECT_EQ(parsed->tools.front().name, "f");
  EXPECT_EQ(parsed->max_tokens, 9);
  EXPECT_EQ(parsed->sampling.logprobs, 2);
  EXPECT_EQ(parsed->ignored, (std::vector<std::string>{"metadata", "strict"}));
  const json echo = json::parse("{" + parsed->echo_json + "}");
  EXPECT_EQ(echo["tools"][0]["name"], "f");
  EXPECT_EQ(echo["temperature"], 0.3);
  EXPECT_EQ(echo["metadata"]["k"], "v");
  EXPECT_EQ(echo["store"], false);
  EXPECT_TRUE(echo["instructions"].is_null());
}

}  // namespace
}  // namespace winnow
