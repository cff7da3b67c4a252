#include "cli/generate/generate_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "source_dir.h"

namespace winnow {
namespace {

GenerationRecord Sample() {
  GenerationRecord record;
  record.text = "two words";
  record.tokens = {{.token_id = 7, .logprob = -0.5f, .top = {{7, -0.5f}}},
                   {.token_id = 2, .logprob = -0.25f, .top = {{2, -0.25f}}}};
  record.completion.num_prompt_tokens = 11;
  record.load_ms = 1.5;
  return record;
}

// Every key of the object that the contract writes after `command`.
std::vector<std::string> ContractKeys(const std::string& command) {
  const std::string page =
      *ReadFile(WINNOW_SOURCE_DIR "/docs/contract.md", 1 << 20);
  const size_t begin = page.find("**`" + command + "`**");
  const size_t open = page.find("`{", begin);
  const std::string object = page.substr(open, page.find("}`", open) - open);
  std::vector<std::string> keys;
  for (size_t at = object.find('"'); at != std::string::npos;) {
    const size_t end = object.find('"', at + 1);
    keys.push_back(object.substr(at + 1, end - at - 1));
    at = object.find('"', end + 1);
  }
  return keys;
}

void CollectKeys(const nlohmann::json& value, std::vector<std::string>* keys) {
  for (const auto& [key, inner] : value.items()) {
    if (value.is_object()) keys->push_back(key);
    if (inner.is_structured()) CollectKeys(inner, keys);
  }
}

TEST(GenerateJsonTest, HasTheKeysOfTheContract) {
  const nlohmann::json line = nlohmann::json::parse(ToJsonLine(Sample()));
  std::vector<std::string> keys;
  CollectKeys(line, &keys);
  std::vector<std::string> contract = ContractKeys("generate --json");
  ASSERT_GT(contract.size(), 15u);
  std::sort(keys.begin(), keys.end());
  std::sort(contract.begin(), contract.end());
  EXPECT_EQ(keys, contract);
}

TEST(GenerateJsonTest, SaysWhatWasGenerated) {
  GenerationRecord record = Sample();
  record.with_logprobs = true;
  const nlohmann::json line = nlohmann::json::parse(ToJsonLine(record));
  EXPECT_EQ(line["token_ids"], (std::vector<int>{7, 2}));
  EXPECT_EQ(line["text"], "two words");
  EXPECT_EQ(line["finish_reason"], "stop");
  EXPECT_EQ(line["logprobs"][1]["token_id"], 2);
  EXPECT_EQ(line["logprobs"][0]["top"][0]["logprob"], -0.5);
  EXPECT_EQ(line["timing"]["load_ms"], 1.5);
}

TEST(GenerateJsonTest, LogprobsAreNullUnlessAskedFor) {
  EXPECT_TRUE(
      nlohmann::json::parse(ToJsonLine(Sample()))["logprobs"].is_null());
}

}  // namespace
}  // namespace winnow
