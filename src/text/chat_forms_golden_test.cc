// Public templates' forms in conversations, and one expression each, against
// what Hugging Face transformers rendered (tests/golden/README.md).
#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/file.h"
#include "source_dir.h"
#include "text/chat_template.h"

namespace winnow {
namespace {

using nlohmann::ordered_json;

const std::filesystem::path kFolder =
    std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/chat";

std::string TextIn(const std::filesystem::path& path) {
  auto text = ReadFile(path, size_t{1} << 20);
  EXPECT_TRUE(text.ok()) << text.error().message;
  return text.ok() ? std::move(text).value() : "";
}

// The instant whose local time is `text`, "2026-03-07T09:05:03".
int64_t SecondsOf(const std::string& text) {
  std::tm parts{};
  EXPECT_NE(strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts), nullptr);
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

std::string Fnv1a64(std::string_view text) {
  uint64_t state = 0xCBF29CE484222325;
  for (const char c : text) {
    state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return fmt::format("{:016x}", state);
}

// How the forms that raise, and those that do not, compare with their hashes.
struct FormTally {
  int num_same = 0, num_raised = 0;
};

// One form in each conversation.
FormTally Compare(const std::string& name, const ordered_json& golden,
                  const ordered_json& hashes) {
  FormTally tally;
  const auto form = ChatTemplate::FromText(
      kFolder,
      {.chat_template_jinja = TextIn(kFolder / "forms" / (name + ".jinja")),
       .tokenizer_config_json = golden["tokens"].dump()});
  EXPECT_TRUE(form.ok()) << form.error().message;
  if (!form.ok()) return tally;
  for (size_t i = 0; i < hashes.size(); ++i) {
    const ordered_json& conversation = golden["conversations"][i];
    SCOPED_TRACE(name + " " + conversation["name"].get<std::string>());
    ordered_json extra = conversation["given"];
    const std::string messages = extra["messages"].dump();
    ChatInput input = {.messages_json = messages};
    input.now_unix_s = SecondsOf(golden["now"]);
    input.add_generation_prompt = extra["add_generation_prompt"];
    input.continue_last = extra.contains("continue_final_message");
    for (const char* known :
         {"messages", "add_generation_prompt", "continue_final_message"}) {
      extra.erase(known);
    }
    const std::string variables = extra.dump();
    input.extra_json = variables;
    const auto text = form->Render(input);
    if (hashes[i].is_null()) {
      EXPECT_FALSE(text.ok()) << *text;
      ++tally.num_raised;
      continue;
    }
    EXPECT_TRUE(text.ok()) << text.error().message;
    if (!text.ok()) continue;
    EXPECT_EQ(Fnv1a64(*text), hashes[i].get<std::string>()) << *text;
    ++tally.num_same;
  }
  return tally;
}

TEST(ChatFormsGoldenTest, RenderLikeTransformers) {
  const auto golden = ordered_json::parse(TextIn(kFolder / "forms.json"));
  ASSERT_GE(golden["forms"].size(), 60u);
  ASSERT_GE(golden["conversations"].size(), 20u);
  FormTally all;
  for (const auto& [name, hashes] : golden["forms"].items()) {
    ASSERT_EQ(hashes.size(), golden["conversations"].size());
    const FormTally tally = Compare(name, golden, hashes);
    all.num_same += tally.num_same;
    all.num_raised += tally.num_raised;
  }
  EXPECT_GT(all.num_same, 1200);
  EXPECT_GT(all.num_raised, 50);
}

TEST(ChatExpressionsGoldenTest, MeanWhatTheyMeanInJinja2) {
  const auto golden = ordered_json::parse(TextIn(kFolder / "expressions.json"));
  ASSERT_GE(golden["expressions"].size(), 800u);
  const std::string values = golden["values"].dump();
  const int64_t now = SecondsOf(golden["now"]);
  for (const auto& expression : golden["expressions"]) {
    const auto source = expression[0].get<std::string>();
    SCOPED_TRACE(source);
    const auto parsed =
        ChatTemplate::FromText("dir", {.chat_template_jinja = source});
    const bool renders = expression[1].is_string();
    if (!parsed.ok()) {
      EXPECT_FALSE(renders) << parsed.error().message;
      continue;
    }
    const auto text = parsed->Render({"[]", values, now});
    EXPECT_EQ(text.ok(), renders) << (text.ok() ? *text : text.error().message);
    if (text.ok() && renders) {
      EXPECT_EQ(*text, expression[1].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace winnow
