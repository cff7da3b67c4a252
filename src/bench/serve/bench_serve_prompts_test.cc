#include "bench/serve/bench_serve_prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace winnow {
namespace {

std::string FileOf(const std::string& name, const std::string& content) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / name).string();
  std::ofstream(path) << content;
  return path;
}

size_t NumWords(const std::string& text) {
  return static_cast<size_t>(std::ranges::count(text, ' ')) + 1;
}

TEST(BenchServePromptsTest, TasksAreAskedAsEvalDoes) {
  const std::string path = FileOf(
      "tasks.jsonl",
      "{\"task\":\"a\",\"length\":1,\"prompt\":\"What?\",\"answers\":[\"x\","
      "\"yz\"]}\n\n"
      "{\"task\":\"a\",\"length\":1,\"context\":\"It is 7.\",\"question\":"
      "\"Is it?\",\"answers\":[\"7\"]}\n"
      "{\"task\":\"a\",\"length\":1,\"context\":\"It is 7.\\n\",\"question\":"
      "\"Is it?\",\"answers\":[\"7\"]}");
  const auto prompts = ReadTaskPrompts({path}, MatchRule::kContains, {});
  ASSERT_TRUE(prompts.ok()) << prompts.error().message;
  ASSERT_EQ(prompts->size(), 3u);
  EXPECT_EQ(prompts->at(0).text, "What?");
  EXPECT_EQ(prompts->at(0).max_tokens, 4 + 32);
  EXPECT_EQ(prompts->at(1).text, "It is 7. Is it?");
  EXPECT_EQ(prompts->at(2).text, "It is 7.\nIs it?");
  EXPECT_TRUE(prompts->at(0).matcher->Matches("so x  and yz").value());
  EXPECT_FALSE(prompts->at(0).matcher->Matches("yz and x").value());
  EXPECT_EQ(ReadTaskPrompts({path}, MatchRule::kExact, 9)->at(0).max_tokens, 9);
}

TEST(BenchServePromptsTest, ABadLineIsNamed) {
  const std::string path = FileOf("bad.jsonl", "\n{\"task\":\"a\"}\n");
  const auto prompts = ReadTaskPrompts({path}, MatchRule::kContains, {});
  ASSERT_FALSE(prompts.ok());
  EXPECT_EQ(prompts.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(prompts.error().message.starts_with(path + ":2: "))
      << prompts.error().message;
}

TEST(BenchServePromptsTest, RandomPromptsAreAsLongAsCounted) {
  const WordTokens counted{.per_word = 2.5, .besides = 10};
  EXPECT_EQ(counted.WordsOf(260), 100u);
  EXPECT_EQ(counted.WordsOf(3), 1u);
  const ServePrompt prompt = RandomPrompt(260, 7, counted, /*seed=*/1, 0);
  EXPECT_EQ(NumWords(prompt.text), 100u);
  EXPECT_EQ(prompt.max_tokens, 7);
  EXPECT_EQ(prompt.matcher, nullptr);
  EXPECT_EQ(prompt.text, RandomPrompt(260, 7, counted, 1, 0).text);
  EXPECT_NE(prompt.text, RandomPrompt(260, 7, counted, 1, 1).text);
  EXPECT_NE(prompt.text, RandomPrompt(260, 7, counted, 2, 0).text);
}

TEST(BenchServePromptsTest, TracedPromptsShareWhatTheyShared) {
  const WordTokens counted{.per_word = 2};
  const auto prompt = [&](int64_t tokens, std::vector<int64_t> hashes,
                          size_t number) {
    return TracedPrompt({.prompt_tokens = tokens,
                         .output_tokens = 3,
                         .hash_ids = std::move(hashes)},
                        counted, /*seed=*/5, number);
  };
  const ServePrompt one = prompt(1100, {4, 8, 9}, 0);
  const ServePrompt other = prompt(1100, {4, 8, 7}, 1);
  const ServePrompt longer = prompt(1500, {4, 8, 9}, 2);
  EXPECT_EQ(one.max_tokens, 3);
  EXPECT_EQ(NumWords(one.text), 550u);
  EXPECT_EQ(NumWords(longer.text), 750u);
  EXPECT_TRUE(longer.text.starts_with(one.text));
  const auto [end, at] = std::ranges::mismatch(one.text, other.text);
  (void)at;
  // 1,024 tokens are 512 words.
  const std::string shared(one.text.begin(), end);
  EXPECT_GE(NumWords(shared), 512u);
  EXPECT_LT(NumWords(shared), 530u);
  // Without hashes nothing is shared, not even of equal lengths.
  EXPECT_NE(prompt(100, {}, 0).text, prompt(100, {}, 1).text);
}

}  // namespace
}  // namespace winnow
