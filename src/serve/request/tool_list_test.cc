#include "serve/request/tool_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/request/api_error.h"
#include "serve/request/completion_request.h"
#include "serve/request/request_case.h"

namespace winnow {
namespace {

Result<CompletionRequest> AskWithTools(Endpoint endpoint,
                                       const std::string& more) {
  const char* begin =
      endpoint == Endpoint::kResponses
          ? R"("input":"x")"
          : R"("max_tokens":5,"messages":[{"role":"user","content":"x"}])";
  return ParseCompletionRequest(fmt::format("{{{},{}}}", begin, more), endpoint,
                                Rules());
}

std::vector<std::string> NamesOf(const std::vector<CallableTool>& tools) {
  std::vector<std::string> names;
  for (const CallableTool& tool : tools) names.push_back(tool.name);
  return names;
}

// Every member of ToolParam (openai 3.54.0) and of BetaToolUnionParam
// (anthropic 2.12.0) that is no function of the client's.
TEST(ToolListTest, WhatIsNoFunctionIsLeftOutAndNamed) {
  const std::pair<Endpoint, std::vector<std::string>> kinds[] = {
      {Endpoint::kResponses,
       {"file_search", "computer", "computer_use_preview", "web_search",
        "web_search_2025_08_26", "mcp", "code_interpreter",
        "programmatic_tool_calling", "image_generation", "local_shell", "shell",
        "custom", "namespace", "tool_search", "web_search_preview",
        "web_search_preview_2025_03_11", "apply_patch", "of_tomorrow"}},
      {kChat, {"custom", "web_search"}},
      {Endpoint::kMessages,
       {"bash_20241022",
        "bash_20250124",
        "code_execution_20250522",
        "code_execution_20250825",
        "code_execution_20260120",
        "code_execution_20260521",
        "browser_toolset_20260801",
        "computer_20241022",
        "computer_20250124",
        "computer_20251124",
        "computer_toolset_20260801",
        "memory_20250818",
        "text_editor_20241022",
        "text_editor_20250124",
        "text_editor_20250429",
        "text_editor_20250728",
        "web_search_20250305",
        "web_fetch_20250910",
        "web_search_20260209",
        "web_fetch_20260209",
        "web_fetch_20260309",
        "web_search_20260318",
        "web_fetch_20260318",
        "advisor_20260301",
        "tool_search_tool_bm25",
        "tool_search_tool_bm25_20251119",
        "tool_search_tool_regex",
        "tool_search_tool_regex_20251119",
        "mcp_toolset"}}};
  for (const auto& [endpoint, names] : kinds) {
    for (const std::string& kind : names) {
      const auto parsed = AskWithTools(
          endpoint,
          fmt::format(R"("tools":[{{"type":"{0}","name":"{0}"}}])", kind));
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      EXPECT_EQ(parsed->ignored, std::vector<std::string>{"tools." + kind});
      EXPECT_TRUE(parsed->tools.empty());
      EXPECT_EQ(parsed->template_json, "{}");
    }
  }
}

constexpr std::string_view kChatTools =
    R"("tools":[{"type":"function","function":{"name":"a"}},)"
    R"({"type":"function","function":{"name":"b"}},)"
    R"({"type":"web_search"}],)";
constexpr std::string_view kResponseTools =
    R"("tools":[{"type":"function","name":"a"},)"
    R"({"type":"function","name":"b"},{"type":"web_search"}],)";

TEST(ToolListTest, TheModelIsToldOfAllowedToolsAlone) {
  for (const bool required : {false, true}) {
    const char* mode = required ? "required" : "auto";
    const auto chat = AskWithTools(
        kChat, fmt::format(R"({}"tool_choice":{{"type":"allowed_tools",)"
                           R"("allowed_tools":{{"mode":"{}","tools":[)"
                           R"({{"type":"function","function":)"
                           R"({{"name":"b"}}}}]}}}})",
                           kChatTools, mode));
    const auto response = AskWithTools(
        Endpoint::kResponses,
        fmt::format(R"({}"tool_choice":{{"type":"allowed_tools",)"
                    R"("mode":"{}","tools":[{{"type":"function",)"
                    R"("name":"b"}},{{"type":"mcp","server_label":"s"}}]}})",
                    kResponseTools, mode));
    for (const auto* parsed : {&chat, &response}) {
      ASSERT_TRUE(parsed->ok()) << parsed->error().message;
      EXPECT_EQ((*parsed)->template_json,
                R"({"tools":[{"type":"function","function":{"name":"b"}}]})");
      EXPECT_EQ(NamesOf((*parsed)->tools), std::vector<std::string>{"b"});
      EXPECT_EQ((*parsed)->forced_tools.size(), required ? 1u : 0u);
      EXPECT_EQ((*parsed)->ignored,
                std::vector<std::string>{"tools.web_search"});
    }
  }
}

// As the types of openai 3.54.0 have it. Its model would know such a tool.
TEST(ToolListTest, AChoiceOfAnotherKindIsNamed) {
  for (const auto& [choice, name] :
       std::vector<std::pair<std::string, std::string>>{
           {R"({"type":"custom","name":"g"})", "custom"},
           {R"({"type":"custom","custom":{"name":"g"}})", "custom"},
           {R"({"type":"web_search_preview"})", "web_search_preview"},
           {R"({"type":"mcp","server_label":"s"})", "mcp"}}) {
    for (const Endpoint endpoint : {kChat, Endpoint::kResponses}) {
      const auto parsed = AskWithTools(endpoint, "\"tool_choice\":" + choice);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      EXPECT_TRUE(parsed->forced_tools.empty());
      EXPECT_EQ(parsed->ignored,
                std::vector<std::string>{"tool_choice." + name});
    }
  }
}

TEST(ToolListTest, WhatIsAllowedMustBeThere) {
  const auto field_of = [](const std::string& choice) {
    const auto parsed = AskWithTools(
        Endpoint::kResponses,
        fmt::format(R"({}"tool_choice":{{"type":"allowed_tools",{}}})",
                    kResponseTools, choice));
    return parsed.ok() ? "" : FieldNamedIn(parsed.error().message);
  };
  EXPECT_EQ(field_of(R"("mode":"auto","tools":[])"), "");
  EXPECT_EQ(field_of(R"("mode":"required","tools":[])"), "tool_choice");
  EXPECT_EQ(field_of(R"("mode":"any","tools":[])"), "tool_choice.mode");
  EXPECT_EQ(field_of(R"("mode":"auto")"), "tool_choice.tools");
  EXPECT_EQ(field_of(R"("mode":"auto","tools":[5])"),
            "tool_choice.tools[0].type");
  EXPECT_EQ(field_of(R"("mode":"auto","tools":[{"type":"function"}])"),
            "tool_choice.tools[0].name");
  EXPECT_EQ(
      field_of(R"("mode":"auto","tools":[{"type":"function","name":"c"}])"),
      "tool_choice");
}

}  // namespace
}  // namespace winnow
