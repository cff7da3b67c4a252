// Against what Hugging Face transformers rendered (tests/golden/README.md).
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "source_dir.h"
#include "text/chat_template.h"

namespace winnow {
namespace {

using nlohmann::ordered_json;

const std::filesystem::path kChatFolder =
    std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/chat";

std::string ReadText(const std::filesystem::path& path) {
  auto text = ReadFile(path, size_t{1} << 20);
  EXPECT_TRUE(text.ok()) << text.error().message;
  return text.ok() ? std::move(text).value() : "";
}

// The instant whose local time is `text`, "2026-03-07T09:05:03".
int64_t InstantOf(const std::string& text) {
  std::tm parts{};
  EXPECT_NE(strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts), nullptr);
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

class ChatTemplateGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(ChatTemplateGoldenTest, RendersLikeTransformers) {
  const auto chat_template = ChatTemplate::FromText(
      kChatFolder,
      {.chat_template_jinja = ReadText(kChatFolder / (GetParam() + ".jinja"))});
  ASSERT_TRUE(chat_template.ok()) << chat_template.error().message;
  const auto golden =
      ordered_json::parse(ReadText(kChatFolder / (GetParam() + ".json")));
  ASSERT_GE(golden["cases"].size(), 5u);
  for (const auto& golden_case : golden["cases"]) {
    SCOPED_TRACE(golden_case["name"].get<std::string>());
    ordered_json extra = golden_case["variables"];
    const std::string messages = extra["messages"].dump();
    const bool prompt = extra["add_generation_prompt"].get<bool>();
    extra.erase("messages");
    extra.erase("add_generation_prompt");
    const auto text = chat_template->Render(
        {messages, extra.dump(), InstantOf(golden["now"]), prompt});
    if (golden_case.contains("text")) {
      ASSERT_TRUE(text.ok()) << text.error().message;
      EXPECT_EQ(*text, golden_case["text"].get<std::string>());
    } else {
      ASSERT_FALSE(text.ok());
      const auto raised = golden_case["error"].get<std::string>();
      EXPECT_TRUE(text.error().message.ends_with(": " + raised))
          << text.error().message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ChatTemplateGoldenTest,
                         testing::Values("headers", "chatml", "inst"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace winnow
