#include "cli/task/prompts.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "cli/command/golden_tokenizers.h"
#include "tests/golden/temporary_folder.h"

namespace winnow {
namespace {

class PromptsTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = (folder_.path() / name).string();
    EXPECT_TRUE(WriteFile(path, content).ok());
    return path;
  }
  Result<std::vector<int32_t>> Encode(Prompt::Kind kind,
                                      const std::string& value) {
    ASSIGN_OR_RETURN(const PromptText text, ReadPrompt({kind, value}));
    return EncodePrompt(text, folder_.path().string(), tokenizer_);
  }

  TemporaryFolder folder_{"prompts"};
  Tokenizer tokenizer_ = Tokenizer::Load(kTokenizer).value();
};

using Kind = Prompt::Kind;

TEST_F(PromptsTest, ATextIsTheSameFromTheCommandLineAndFromAFile) {
  const std::string text = "What is the\n capital?\n";
  const auto ids = Encode(Kind::kText, text);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(*ids, *tokenizer_.Encode(text, /*add_special_tokens=*/true));
  EXPECT_EQ(*ids, *Encode(Kind::kFile, Write("p", text)));
}

// The template writes the special tokens; the tokenizer adds no other.
TEST_F(PromptsTest, AChatMessageGoesThroughTheTemplate) {
  Write("chat_template.jinja",
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %} [assistant]{% endif %}");
  const auto ids = Encode(Kind::kChat, "a \"b\" {{ c }}");
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(*ids, *tokenizer_.Encode("[user] a \"b\" {{ c }} [assistant]",
                                     /*add_special_tokens=*/false));
}

// What is typed wrongly is a usage error; what a file holds is not.
TEST_F(PromptsTest, WhatIsNoTextIsRefusedWithoutATokenizer) {
  const std::string empty = Write("empty", ""), latin = Write("l", "caf\xe9");
  const auto expect = [](const Prompt& prompt, ErrorCode code,
                         const std::string& message) {
    const Result<PromptText> text = ReadPrompt(prompt);
    ASSERT_FALSE(text.ok()) << message;
    EXPECT_EQ(text.error().message, message);
    EXPECT_EQ(text.error().code, code) << message;
  };
  const auto usage = ErrorCode::kInvalidArgument;
  expect({Kind::kText, ""}, usage,
         "--prompt: prompt must have at least 1 character, is empty");
  expect({Kind::kChat, ""}, usage,
         "--chat: message must have at least 1 character, is empty");
  expect({Kind::kText, "a\xff"}, usage,
         "--prompt: text: invalid UTF-8 at byte 1 (0xff)");
  expect({Kind::kChat, "\xfe"}, usage,
         "--chat: text: invalid UTF-8 at byte 0 (0xfe)");
  expect({Kind::kFile, empty}, ErrorCode::kCorrupt,
         empty + ": prompt must have at least 1 character, is empty");
  expect({Kind::kFile, latin}, ErrorCode::kCorrupt,
         latin + ": text: invalid UTF-8 at byte 3 (0xe9)");
  expect({Kind::kFile, "/nowhere/p"}, ErrorCode::kNotFound,
         "/nowhere/p: cannot open: No such file or directory");
}

TEST_F(PromptsTest, ATemplateThatIsMissingOrFailsIsTheCheckpointsFault) {
  EXPECT_EQ(Encode(Kind::kChat, "x").error().code, ErrorCode::kNotFound);
  Write("chat_template.jinja", "{{ raise_exception('no such role') }}");
  const auto failed = Encode(Kind::kChat, "x");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(failed.error().message.find("no such role"), std::string::npos);
}

}  // namespace
}  // namespace winnow
