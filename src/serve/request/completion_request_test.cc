#include "serve/request/completion_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/request/api_error.h"
#include "serve/request/request_case.h"

namespace winnow {
namespace {

using nlohmann::json;

Result<CompletionRequest> ParseCompletion(
    const std::string& body, Endpoint endpoint = Endpoint::kCompletions) {
  RequestRules rules;
  rules.max_n = 4;
  rules.vocab_size = 100;
  rules.defaults.top_k = 7;
  return ParseCompletionRequest(body, endpoint, rules);
}

std::string Complaint(const std::string& body,
                      Endpoint endpoint = Endpoint::kCompletions) {
  const auto parsed = ParseCompletion(body, endpoint);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(CompletionRequestTest, TakesPromptsInEveryForm) {
  using Prompts = std::vector<std::string>;
  using Ids = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(ParseCompletion(R"({"prompt":"a"})")->texts, Prompts{"a"});
  EXPECT_EQ(ParseCompletion(R"({"prompt":["a","b"]})")->texts,
            (Prompts{"a", "b"}));
  EXPECT_EQ(ParseCompletion(R"({"prompt":[1,2]})")->token_ids, (Ids{{1, 2}}));
  EXPECT_EQ(ParseCompletion(R"({"prompt":[[1],[2,3]]})")->token_ids,
            (Ids{{1}, {2, 3}}));
  EXPECT_EQ(ParseCompletion(R"({"prompt":[[1.0],[2]]})")->token_ids,
            (Ids{{1}, {2}}));
  // Of a list the item that is wrong is named.
  const std::pair<const char*, const char*> wrong[] = {
      {"[[1],2]", "prompt[1]"},
      {"[[1],[]]", "prompt[1]"},
      {"[100]", "prompt[0]"},
      {"[[-1]]", "prompt[0]"},
      {"[1,\"a\"]", "prompt[1]"},
      {"[[1.5]]", "prompt[0]"},
      {"[\"a\",\"b\",3]", "prompt[2]"},
      {"null", "prompt"},
      {"[]", "prompt"},
      {"[null]", "prompt"}};
  for (const auto& [prompt, field] : wrong) {
    EXPECT_EQ(
        FieldNamedIn(Complaint(fmt::format(R"({{"prompt":{}}})", prompt))),
        field)
        << prompt;
  }
}

TEST(CompletionRequestTest, ReadsMessages) {
  const auto parsed = ParseCompletion(
      R"({"messages":[{"role":"developer","content":"Be brief."},)"
      R"({"role":"user","name":"Ann","content":[{"type":"text","text":"Say "},)"
      R"({"type":"text","text":"hi"}]},)"
      R"({"role":"assistant","tool_calls":[]},)"
      R"({"role":"assistant","content":null,"reasoning":"So."}],)"
      R"("chat_template_kwargs":{"z":1.0,"enable_thinking":false}})",
      kChat);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const json messages = json::parse(parsed->messages_json);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[1]["content"][1]["text"], "hi");
  EXPECT_EQ(messages[1]["name"], "Ann");
  EXPECT_EQ(messages[2]["content"], "");
  EXPECT_EQ(messages[3]["content"], "");
  EXPECT_EQ(messages[3]["reasoning_content"], "So.");
  EXPECT_EQ(parsed->template_json, R"({"z":1.0,"enable_thinking":false})");
  EXPECT_FALSE(parsed->add_special_tokens);
}

TEST(CompletionRequestTest, ReadsHowMuchIsToBeThought) {
  const auto parse = [](const std::string& more) {
    return ParseCompletion(
        R"({"messages":[{"role":"user","content":"x"}],)" + more + "}", kChat);
  };
  const auto low = parse(R"("reasoning_effort":"low","reasoning":{"a":1})");
  ASSERT_TRUE(low.ok()) << low.error().message;
  EXPECT_EQ(low->thoughts.effort, "low");
  EXPECT_TRUE(low->thoughts.shows);
  EXPECT_EQ(low->ignored, std::vector<std::string>{"reasoning"});
  EXPECT_FALSE(parse(R"("include_reasoning":false)")->thoughts.shows);
  EXPECT_EQ(FieldNamedIn(parse(R"("reasoning_effort":"no")").error().message),
            "reasoning_effort");
}

TEST(CompletionRequestTest, NamesTheMessageThatIsWrong) {
  const auto field_of = [](const std::string& messages) {
    return FieldNamedIn(
        Complaint(fmt::format(R"({{"messages":{}}})", messages), kChat));
  };
  EXPECT_EQ(field_of("[]"), "messages");
  EXPECT_EQ(field_of("[1]"), "messages[0]");
  EXPECT_EQ(field_of(R"([{"role":"robot","content":"x"}])"),
            "messages[0].role");
  EXPECT_EQ(field_of(R"([{"role":"user"}])"), "messages[0].content");
  EXPECT_EQ(field_of(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
            "messages[0].content[0].type");
}

TEST(CompletionRequestTest, AnAnswerMayGoOnWithTheLastMessage) {
  const auto parsed = [](const std::string& more) {
    return ParseCompletion(
        R"({"messages":[{"role":"user","content":"x"}],)" + more + "}", kChat);
  };
  EXPECT_FALSE(parsed(R"("n":1)")->continues_message);
  const auto goes_on = parsed(R"("continue_final_message":true)");
  ASSERT_TRUE(goes_on.ok()) << goes_on.error().message;
  EXPECT_TRUE(goes_on->continues_message);
  EXPECT_FALSE(goes_on->add_generation_prompt);
  const auto both =
      parsed(R"("continue_final_message":true,"add_generation_prompt":true)");
  EXPECT_EQ(FieldNamedIn(both.error().message), "continue_final_message");
  EXPECT_TRUE(parsed(R"("include_stop_str_in_output":true)")->keeps_stops);
}

constexpr std::string_view kTool =
    R"({"type":"function","function":{"name":"get","parameters":)"
    R"({"type":"object","properties":{"b":1.0,"a":{}}}}})";

TEST(CompletionRequestTest, GivesTheTemplateTheToolsAsTheyAreWritten) {
  const auto parsed = [](const std::string& more) {
    return ParseCompletion(
        fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}],)"
                    R"("tools":[{}],{}}})",
                    kTool, more),
        kChat);
  };
  const auto plain = parsed(R"("parallel_tool_calls":true)");
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_EQ(plain->template_json, fmt::format("{{\"tools\":[{}]}}", kTool));
  ASSERT_EQ(plain->tools.size(), 1u);
  EXPECT_EQ(plain->tools.front().name, "get");
  EXPECT_FALSE(plain->one_call);
  const auto one = parsed(R"("tool_choice":"auto","parallel_tool_calls":false,)"
                          R"("chat_template_kwargs":{"tools":5,"x":1})");
  EXPECT_EQ(one->template_json,
            fmt::format(R"({{"x":1,"tools":[{}]}})", kTool));
  EXPECT_TRUE(one->one_call);
  const auto none = parsed(R"("tool_choice":"none")");
  EXPECT_EQ(none->template_json, "{}");
  EXPECT_TRUE(none->tools.empty());
  for (const char* choice :
       {"\"required\"", R"({"type":"function","function":{"name":"get"}})"}) {
    const auto forced = parsed(fmt::format("\"tool_choice\":{}", choice));
    ASSERT_TRUE(forced.ok()) << forced.error().message;
    ASSERT_EQ(forced->forced_tools.size(), 1u);
    EXPECT_EQ(forced->forced_tools[0].name, "get");
  }
  for (const char* choice :
       {"\"all\"", "5", R"({"type":"function","name":"get"})",
        R"({"type":"function","function":{"name":"set"}})"}) {
    const auto wrong = parsed(fmt::format("\"tool_choice\":{}", choice));
    EXPECT_EQ(FieldNamedIn(wrong.error().message), "tool_choice") << choice;
  }
  EXPECT_EQ(FieldNamedIn(Complaint(R"({"messages":[{"role":"user",)"
                                   R"("content":"x"}],)"
                                   R"("tool_choice":"required"})",
                                   kChat)),
            "tool_choice");
}

TEST(CompletionRequestTest, NamesTheToolThatIsWrong) {
  const auto field_of = [](const std::string& tools) {
    return FieldNamedIn(Complaint(
        fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}],)"
                    R"("tools":{}}})",
                    tools),
        kChat));
  };
  EXPECT_EQ(field_of("5"), "tools");
  EXPECT_EQ(field_of("[5]"), "tools[0]");
  EXPECT_EQ(field_of(R"([{"type":5}])"), "tools[0].type");
  EXPECT_EQ(field_of(R"([{"type":"function"}])"), "tools[0].function");
  for (const char* name : {"", "a b", "x\\ny", "\\\"quoted\\\"", "é"}) {
    EXPECT_EQ(
        field_of(fmt::format(
            R"([{{"type":"function","function":{{"name":"{}"}}}}])", name)),
        "tools[0].function.name")
        << name;
  }
  EXPECT_EQ(field_of(R"([{"type":"function","function":{"name":"a",)"
                     R"("parameters":[]}}])"),
            "tools[0].function.parameters");
  std::string many;
  for (int i = 0; i < 129; ++i)
    many += (i == 0 ? "" : ",") + std::string(kTool);
  EXPECT_EQ(field_of("[" + many + "]"), "tools");
}

// Templates read arguments as an object, in the order that they were written.
TEST(CompletionRequestTest, ReadsCallsThatWereMade) {
  const auto parsed = [](const std::string& arguments) {
    return ParseCompletion(
        R"({"messages":[{"role":"assistant","content":null,"tool_calls":)"
        R"([{"id":"c1","type":"function","function":{"name":"get",)"
        R"("arguments":)" +
            arguments +
            R"(}}]},{"role":"tool","tool_call_id":"c1","content":"5"}]})",
        kChat);
  };
  const auto text = parsed(R"("{\"b\":1.0,\"a\":2}")");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->messages_json,
            R"([{"role":"assistant","content":null,"tool_calls":[{"id":"c1",)"
            R"("type":"function","function":{"name":"get","arguments":)"
            R"({"b":1.0,"a":2}}}]},{"role":"tool","tool_call_id":"c1",)"
            R"("content":"5"}])");
  EXPECT_NE(parsed("\"\"")->messages_json.find(R"("arguments":{})"),
            std::string::npos);
  for (const char* other : {"\"[1]\"", "\"{\"", "5"}) {
    ASSERT_TRUE(parsed(other).ok()) << other;
    EXPECT_NE(parsed(other)->messages_json.find(R"({"INVALID_JSON":")"),
              std::string::npos);
  }
}

TEST(CompletionRequestTest, TakesTheCheckpointsDefaults) {
  const auto plain = ParseCompletion(R"({"prompt":"a"})");
  EXPECT_EQ(plain->sampling.temperature, 1.0f);
  EXPECT_EQ(plain->sampling.top_k, 7);
  EXPECT_FALSE(plain->max_tokens);
  EXPECT_FALSE(plain->seed);
  const auto own = ParseCompletion(
      R"({"prompt":"a","top_k":-1,"temperature":0,"seed":-1,"max_tokens":3,)"
      R"("logit_bias":{"5":-2.5},"stop":"x"})");
  EXPECT_EQ(own->sampling.top_k, 0);
  EXPECT_EQ(own->sampling.temperature, 0.0f);
  EXPECT_EQ(own->seed, UINT64_MAX);
  EXPECT_EQ(own->max_tokens, 3);
  ASSERT_EQ(own->sampling.logit_bias.size(), 1u);
  EXPECT_EQ(own->sampling.logit_bias[0].token_id, 5);
  EXPECT_EQ(own->sampling.logit_bias[0].bias, -2.5f);
  EXPECT_EQ(own->stop, std::vector<std::string>{"x"});
}

TEST(CompletionRequestTest, TokensThatMayBeDrawn) {
  const auto asked = ParseCompletion(
      R"({"prompt":"a","min_tokens":2,"allowed_token_ids":[3,99]})");
  EXPECT_EQ(asked->min_tokens, 2);
  EXPECT_EQ(asked->allowed_token_ids, (std::vector<int32_t>{3, 99}));
  EXPECT_EQ(ParseCompletion(R"({"prompt":"a"})")->min_tokens, 0);
  for (const char* wrong :
       {R"("min_tokens":-1)", R"("min_tokens":"1")",
        R"("allowed_token_ids":[])", R"("allowed_token_ids":[100])"}) {
    const auto parsed =
        ParseCompletion(fmt::format(R"({{"prompt":"a",{}}})", wrong));
    EXPECT_FALSE(parsed.ok()) << wrong;
  }
}

TEST(CompletionRequestTest, LogprobsAreANumberOrASwitch) {
  EXPECT_EQ(
      ParseCompletion(R"({"prompt":"a","logprobs":3})")->sampling.logprobs, 3);
  EXPECT_FALSE(ParseCompletion(R"({"prompt":"a"})")->names_tokens_by_id);
  EXPECT_TRUE(
      ParseCompletion(R"({"prompt":"a","return_tokens_as_token_ids":true})")
          ->names_tokens_by_id);
  const std::string begin = R"({"messages":[{"role":"user","content":"x"}],)";
  EXPECT_EQ(
      ParseCompletion(begin + R"("logprobs":true,"top_logprobs":2})", kChat)
          ->sampling.logprobs,
      2);
  EXPECT_EQ(
      ParseCompletion(begin + R"("logprobs":true})", kChat)->sampling.logprobs,
      0);
  EXPECT_EQ(FieldNamedIn(Complaint(begin + R"("top_logprobs":2})", kChat)),
            "top_logprobs");
}

TEST(CompletionRequestTest, AStreamMayBeWatched) {
  EXPECT_FALSE(ParseCompletion(R"({"prompt":"a","stream":true})")->wants_picks);
  EXPECT_TRUE(
      ParseCompletion(R"({"prompt":"a","stream":true,"winnow":{"picks":true}})")
          ->wants_picks);
  EXPECT_FALSE(ParseCompletion(R"({"prompt":"a","winnow":{"picks":false}})")
                   ->wants_picks);
  for (const char* bad :
       {R"({"prompt":"a","winnow":{"picks":true}})",
        R"({"prompt":"a","stream":false,"winnow":{"picks":true}})"}) {
    EXPECT_EQ(FieldNamedIn(Complaint(bad)), "winnow.picks");
  }
  EXPECT_EQ(FieldNamedIn(Complaint(R"({"prompt":"a","winnow":{"other":1}})")),
            "winnow.other");
  EXPECT_EQ(FieldNamedIn(Complaint(R"({"prompt":"a","winnow":[]})")), "winnow");
}

TEST(CompletionRequestTest, AnErrorNamesFieldLimitAndValue) {
  EXPECT_EQ(Complaint(R"({"prompt":"a","n":9})"),
            "request: field n: must be an integer in [1, 4], is 9");
  EXPECT_EQ(FieldNamedIn(Complaint(R"({"prompt":"a","stop":[""]})")),
            "stop[0]");
  EXPECT_EQ(FieldNamedIn(Complaint("{")), "");
}

}  // namespace
}  // namespace winnow
