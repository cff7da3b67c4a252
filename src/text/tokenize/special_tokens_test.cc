// What the files beside tokenizer.json add, against what transformers makes of
// the same folders (tests/golden/README.md).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "source_dir.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

// Byte-level, and three tokens more in its own vocabulary.
json BytesAndThree(const json& added) {
  const auto golden = ReadFile(std::filesystem::path(WINNOW_SOURCE_DIR) /
                                   "tests/golden/tokenizers/qwen2/"
                                   "tokenizer.json",
                               size_t{1} << 20);
  const json qwen = json::parse(*golden);
  json vocab;
  // Its first 256 are the bytes in the alphabet's order, not in the bytes'.
  for (const auto& [token, id] : qwen["model"]["vocab"].items()) {
    if (id.get<int>() < 256) vocab[token] = id;
  }
  int next = 256;
  for (const char* token : {"<a>", "<b>", "<c>"}) vocab[token] = next++;
  const json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"pre_tokenizer", level},
          {"decoder", level},
          {"model",
           {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}};
}

std::optional<std::string> TextOf(const json& files, const char* name) {
  if (!files.contains(name)) return std::nullopt;
  return files[name].dump();
}

Tokenizer TokenizerOf(const json& added, const json& files) {
  auto tokenizer = Tokenizer::FromJson(
      "dir", BytesAndThree(added).dump(),
      TextOf(files, "tokenizer_config.json"),
      {.special_map_json = TextOf(files, "special_tokens_map.json"),
       .added_json = TextOf(files, "added_tokens.json")});
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

Ids From256(const Ids& ids) {
  Ids high;
  for (const int32_t id : ids) {
    if (id >= 256) high.push_back(id);
  }
  return high;
}

TEST(SpecialTokensTest, AreTheOnesThatTransformersAdds) {
  const auto text = ReadFile(std::filesystem::path(WINNOW_SOURCE_DIR) /
                                 "tests/golden/special_tokens.json",
                             size_t{1} << 20);
  const json golden = json::parse(*text);
  ASSERT_GE(golden["cases"].size(), 30u);
  for (const auto& [name, expected] : golden["cases"].items()) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer =
        TokenizerOf(expected["added"], expected["files"]);
    const Ids ids =
        tokenizer.Encode(golden["text"].get<std::string>(), false).value();
    const Ids golden_ids = expected["ids"].get<Ids>();
    EXPECT_EQ(ids.size(), golden_ids.size());
    EXPECT_EQ(From256(ids), From256(golden_ids));
    EXPECT_EQ(tokenizer.Decode(ids, true).value(),
              expected["skipped"].get<std::string>());
    EXPECT_EQ(tokenizer.vocab_size(), expected["num_tokens"].get<int>());
    const json& eos = expected["eos_token"];
    // One that the model cannot write ends no answer.
    const bool is_known = eos.is_string() && eos != "<d>";
    EXPECT_EQ(tokenizer.eos_id().has_value(), is_known);
    if (is_known) {
      EXPECT_EQ(tokenizer.TokenText(*tokenizer.eos_id()), eos);
    }
  }
}

TEST(SpecialTokensTest, WhatIsNoTokenIsLeftOutAndNamed) {
  const json config = {{"eos_token", 5},
                       {"additional_special_tokens", {"<a>", 7}},
                       {"pad_token", {{"id", 3}}}};
  const Tokenizer tokenizer =
      TokenizerOf(json::array(), {{"tokenizer_config.json", config}});
  EXPECT_EQ(
      tokenizer.Notes(),
      (std::vector<std::string>{
          "dir/tokenizer_config.json: field eos_token: must be the text of a "
          "token or an object with its \"content\", is 5: it is left out",
          "dir/tokenizer_config.json: field pad_token: must be the text of a "
          "token or an object with its \"content\", is {\"id\":3}: it is left "
          "out",
          "dir/tokenizer_config.json: field additional_special_tokens: must be "
          "the text of a token or an object with its \"content\", is 7: it is "
          "left out"}));
  EXPECT_TRUE(tokenizer.IsSpecial(256));
}

TEST(SpecialTokensTest, AnEndTokenThatNobodyHasIsNamed) {
  const Tokenizer tokenizer = TokenizerOf(
      json::array(), {{"special_tokens_map.json", {{"eos_token", "<gone>"}}}});
  EXPECT_EQ(tokenizer.Notes(),
            (std::vector<std::string>{
                "dir/special_tokens_map.json: field eos_token: must be a token "
                "of the vocabulary, is \"<gone>\": no answer ends with it"}));
  EXPECT_FALSE(tokenizer.eos_id());
}

TEST(SpecialTokensTest, AnAddedTokenWithTheIdOfAnotherIsNamed) {
  const Tokenizer tokenizer = TokenizerOf(
      json::array(), {{"added_tokens.json", {{"<a>", 257}, {"<b>", 257}}}});
  EXPECT_EQ(tokenizer.Notes(),
            (std::vector<std::string>{
                "dir/added_tokens.json: token \"<a>\" must have an id of its "
                "own, has 257: it is left out"}));
  EXPECT_EQ(tokenizer.Encode("<b>", false).value(), Ids{257});
}

}  // namespace
}  // namespace winnow
