#include "cli/command/end_tokens.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

// Words 0 to 3; `config` is tokenizer_config.json.
Tokenizer WordsWith(const json& config) {
  const json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"model",
       {{"type", "WordLevel"},
        {"vocab", {{"a", 0}, {"b", 1}, {"<im_end>", 2}, {"[UNK]", 3}}},
        {"unk_token", "[UNK]"}}}};
  return Tokenizer::FromJson("dir", tokenizer.dump(), config.dump()).value();
}

ModelConfig ConfigWith(std::vector<int32_t> ends, int vocab_size) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.generation.eos_token_ids = std::move(ends);
  return config;
}

TEST(EndTokensTest, TheTokenizersIsOneBesideTheOthers) {
  const Tokenizer tokenizer = WordsWith({{"eos_token", "<im_end>"}});
  using TokenIds = std::vector<int32_t>;
  EXPECT_EQ(EndTokenIds(ConfigWith({}, 4), tokenizer), TokenIds{2});
  EXPECT_EQ(EndTokenIds(ConfigWith({0, 3}, 4), tokenizer), (TokenIds{0, 2, 3}));
  EXPECT_EQ(EndTokenIds(ConfigWith({2}, 4), tokenizer), TokenIds{2});
  EXPECT_EQ(EndTokenIds(ConfigWith({1}, 4), WordsWith(json::object())),
            TokenIds{1});
  EXPECT_TRUE(TokenNotes(ConfigWith({}, 4), tokenizer).empty());
}

TEST(EndTokensTest, WhatIsNoTokenOfTheModelIsNamed) {
  const Tokenizer tokenizer = WordsWith({{"eos_token", "<im_end>"}});
  ModelConfig config = ConfigWith({1}, 2);
  config.generation.wrong_eos = {"g: field eos_token_id: must be x, is 9"};
  EXPECT_EQ(EndTokenIds(config, tokenizer), std::vector<int32_t>{1});
  EXPECT_EQ(TokenNotes(config, tokenizer),
            (std::vector<std::string>{
                "g: field eos_token_id: must be x, is 9: it is left out",
                "eos_token \"<im_end>\" of the tokenizer: must have an id "
                "below 2 (the model's vocab_size), has 2: no answer ends with "
                "it"}));
}

}  // namespace
}  // namespace winnow
