// Against what Hugging Face's `tokenizers` gave (tests/golden/README.md).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "source_dir.h"
#include "text/rust_text.h"
#include "text/tokenize/detokenizer.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

const std::filesystem::path kTokenizersFolder =
    std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/tokenizers";

json ReadJson(const std::filesystem::path& path) {
  const auto text = ReadFile(path, size_t{16} << 20);
  EXPECT_TRUE(text.ok()) << text.error().message;
  return text.ok() ? json::parse(*text) : json();
}

std::string TextOr(const json& text, const std::string& otherwise) {
  return text.is_null() ? otherwise : text.get<std::string>();
}

Ids Joined(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

class TokenizerGoldenTest : public testing::TestWithParam<std::string> {
 protected:
  TokenizerGoldenTest()
      : strings_(ReadJson(kTokenizersFolder / "strings.json")
                     .get<std::vector<std::string>>()),
        golden_(ReadJson(kTokenizersFolder / GetParam() / "golden.json")),
        tokenizer_(Tokenizer::Load(kTokenizersFolder / GetParam()).value()),
        prefix_(golden_["prefix"].get<Ids>()),
        suffix_(golden_["suffix"].get<Ids>()) {}

  Ids GoldenIds(size_t i) const { return golden_["ids"][i].get<Ids>(); }

  // Decodes at once and as a stream.
  void ExpectText(const Ids& ids, bool skip_special_tokens,
                  const std::string& expected) const {
    ExpectDecoded(ids, skip_special_tokens, expected);
    ExpectStreamed(ids, skip_special_tokens, expected);
  }

  void ExpectDecoded(const Ids& ids, bool skip_special_tokens,
                     const std::string& expected) const {
    const auto whole = tokenizer_.Decode(ids, skip_special_tokens);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    EXPECT_EQ(*whole, expected);
  }

  // Its pieces must be whole characters.
  void ExpectStreamed(const Ids& ids, bool skip_special_tokens,
                      const std::string& expected) const {
    Detokenizer detokenizer(tokenizer_, skip_special_tokens);
    std::string streamed;
    for (const int32_t id : ids) {
      const auto piece = detokenizer.Push(id);
      ASSERT_TRUE(piece.ok()) << piece.error().message;
      EXPECT_TRUE(internal::CheckUtf8("piece", *piece).ok());
      streamed += *piece;
      ASSERT_TRUE(expected.starts_with(streamed)) << streamed;
    }
    const auto rest = detokenizer.Finish();
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_TRUE(internal::CheckUtf8("rest", *rest).ok());
    EXPECT_EQ(streamed + *rest, expected);
  }

  std::vector<std::string> strings_;
  json golden_;
  Tokenizer tokenizer_;
  Ids prefix_;
  Ids suffix_;
};

TEST_P(TokenizerGoldenTest, EncodesLikeTheLibrary) {
  ASSERT_EQ(strings_.size(), 500u);
  for (size_t i = 0; i < strings_.size(); ++i) {
    SCOPED_TRACE("string " + std::to_string(i));
    const Ids expected = GoldenIds(i);
    const auto bare = tokenizer_.Encode(strings_[i], false);
    ASSERT_TRUE(bare.ok()) << bare.error().message;
    EXPECT_EQ(*bare, expected);
    const auto special = tokenizer_.Encode(strings_[i], true);
    ASSERT_TRUE(special.ok()) << special.error().message;
    EXPECT_EQ(*special, Joined(Joined(prefix_, expected), suffix_));
  }
}

TEST_P(TokenizerGoldenTest, DecodesAndStreamsLikeTheLibrary) {
  const auto prefix_text = golden_["prefix_text"].get<std::string>();
  const auto suffix_text = golden_["suffix_text"].get<std::string>();
  for (size_t i = 0; i < strings_.size(); ++i) {
    SCOPED_TRACE("string " + std::to_string(i));
    const Ids ids = GoldenIds(i);
    const Ids with_special = Joined(Joined(prefix_, ids), suffix_);
    const std::string kept = TextOr(golden_["kept"][i], strings_[i]);
    const std::string skipped = TextOr(golden_["skipped"][i], kept);
    ExpectText(ids, false, kept);
    ExpectText(ids, true, skipped);
    ExpectText(with_special, true, skipped);
    ExpectText(with_special, false,
               TextOr(golden_["whole"][i], prefix_text + kept + suffix_text));
  }
}

TEST_P(TokenizerGoldenTest, DecodesAndStreamsAnyIds) {
  ASSERT_EQ(golden_["random_ids"].size(), 60u);
  for (size_t i = 0; i < golden_["random_ids"].size(); ++i) {
    SCOPED_TRACE("list " + std::to_string(i));
    const Ids ids = golden_["random_ids"][i].get<Ids>();
    const std::string kept = golden_["random_kept"][i].get<std::string>();
    const std::string skipped = TextOr(golden_["random_skipped"][i], kept);
    ExpectDecoded(ids, false, kept);
    ExpectDecoded(ids, true, skipped);
    const bool mends = golden_.contains("random_streamed");
    ExpectStreamed(ids, false,
                   mends ? golden_["random_streamed"][i] : json(kept));
    ExpectStreamed(
        ids, true,
        mends ? golden_["random_streamed_skipped"][i] : json(skipped));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGoldenTest,
                         testing::Values("llama2", "llama3", "mistral", "qwen2",
                                         "unigram", "unigram_bytes",
                                         "wordlevel"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace winnow
