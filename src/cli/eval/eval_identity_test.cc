#include "cli/eval/eval_identity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class EvalIdentityTest : public testing::Test {
 protected:
  EvalIdentityTest() {
    WriteTinyModel(ReadTinyCase("llama"), folder_.path(), {});
    Write("tokenizer.json", "{}");
    Write("tokenizer_config.json", R"({"add_bos_token": true})");
  }
  void Write(const char* name, const std::string& content) const {
    ASSERT_TRUE(WriteFile(folder_.path() / name, content).ok());
  }
  EvalIdentity Identity() const {
    const DigestMemory memory({});
    const Model model =
        Model::Load(folder_.path(), {.digests = &memory}).value();
    EvalFlags flags;
    flags.engine.model = "m";
    return EvalIdentityOf(flags, model, {},
                          model.config().generation.eos_token_ids)
        .value();
  }
  // What differs from `before`, as the journal's error spells it.
  std::vector<std::string> Since(const EvalIdentity& before) const {
    std::vector<std::string> told;
    const EvalIdentity after = Identity();
    for (const auto& entry : after) {
      if (std::ranges::count(before, entry) > 0) continue;
      told.push_back(entry.first + " must be " + entry.second);
    }
    if (after.size() < before.size()) told.push_back("fewer");
    return told;
  }

  TemporaryFolder folder_{"eval_identity"};
};

TEST_F(EvalIdentityTest, NamesTheFileAndFieldThatMayChangeAnswers) {
  const EvalIdentity before = Identity();
  using Told = std::vector<std::string>;
  Write("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_EQ(Since(before),
            Told{"tokenizer_config.json: add_bos_token must be false"});
  Write("tokenizer_config.json", "{}");
  EXPECT_EQ(Since(before), Told{"fewer"});
  Write("tokenizer_config.json",
        R"({"add_bos_token": true, "eos_token": "</s>"})");
  EXPECT_EQ(Since(before),
            Told{"tokenizer_config.json: eos_token must be \"</s>\""});
  Write("tokenizer_config.json", R"({"add_bos_token": true})");
  Write("generation_config.json", R"({"eos_token_id": [3, 2]})");
  EXPECT_EQ(Since(before),
            Told{"generation_config.json: eos_token_id must be [2, 3]"});
  Write("generation_config.json", "{}");
  EXPECT_EQ(Since(before), Told{});
  Write("tokenizer.json", R"({"model": {}})");
  EXPECT_EQ(Since(before).size(), 1u);
  EXPECT_TRUE(Since(before)[0].starts_with("tokenizer.json must be "));
  Write("tokenizer.json", "{}");
  Write("attn_gate_weights.safetensors", "gates");
  EXPECT_TRUE(Since(before)[0].starts_with("attn_gate_weights.safetensors: "));
}

// Answers are greedy, and no template is used.
TEST_F(EvalIdentityTest, WhatNoAnswerDependsOnDoesNotCount) {
  const EvalIdentity before = Identity();
  Write("tokenizer_config.json",
        R"({"add_bos_token": true, "chat_template": "{{ messages }}"})");
  Write("generation_config.json", R"({"temperature": 0.1})");
  Write("notes.json", "{}");
  Write("chat_template.jinja", "{{ messages }}");
  EXPECT_EQ(Since(before), std::vector<std::string>{});
}

TEST_F(EvalIdentityTest, NamesAreDistinct) {
  EvalIdentity identity = Identity();
  std::ranges::sort(identity);
  const auto twice = std::ranges::adjacent_find(
      identity, {}, &EvalIdentity::value_type::first);
  EXPECT_TRUE(twice == identity.end()) << twice->first;
}

}  // namespace
}  // namespace winnow
