#include "serve/answer/banned_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "source_dir.h"

namespace winnow {
namespace {

// Which of the first 64 tokens may come next.
uint64_t AllowedBy(TokenConstraint& constraint) {
  std::vector<uint32_t> words = {~0u, ~0u};
  EXPECT_TRUE(constraint.Mask(words).ok());
  return words[0] | uint64_t{words[1]} << 32;
}

constexpr uint64_t AllBut(std::initializer_list<int> ids) {
  uint64_t allowed = ~uint64_t{0};
  for (const int id : ids) allowed &= ~(uint64_t{1} << id);
  return allowed;
}

TEST(BannedWordsTest, ALastTokenIsNotDrawnBehindTheOthers) {
  BannedWords banned({{5}, {7, 40, 8}, {40, 9}}, nullptr);
  EXPECT_EQ(AllowedBy(banned), AllBut({5}));
  for (const auto& [drawn, allowed] :
       std::vector<std::pair<int32_t, uint64_t>>{{7, AllBut({5})},
                                                 {40, AllBut({5, 8, 9})},
                                                 {40, AllBut({5, 9})},
                                                 {7, AllBut({5})},
                                                 {6, AllBut({5})}}) {
    banned.Accept(drawn);
    EXPECT_EQ(AllowedBy(banned), allowed) << drawn;
  }
  EXPECT_FALSE(banned.complete());
}

TEST(BannedWordsTest, ATokenBeyondTheVocabularyIsNobodys) {
  BannedWords banned({{64}, {1000}}, nullptr);
  EXPECT_EQ(AllowedBy(banned), ~uint64_t{0});
}

// Allows even tokens until it has seen two.
class TwoEvens : public TokenConstraint {
 public:
  Status Mask(std::span<uint32_t> words) override {
    for (uint32_t& word : words) word = 0x55555555;
    return Ok{};
  }
  void Accept(int32_t) override { ++num_; }
  bool complete() const override { return num_ == 2; }

 private:
  int num_ = 0;
};

TEST(BannedWordsTest, StandBesideAnotherConstraint) {
  BannedWords banned({{4}}, std::make_shared<TwoEvens>());
  EXPECT_EQ(AllowedBy(banned), 0x5555555555555555 & AllBut({4}));
  banned.Accept(2);
  EXPECT_FALSE(banned.complete());
  banned.Accept(2);
  EXPECT_TRUE(banned.complete());
}

TEST(BannedWordsTest, AWordIsFoundBehindASpaceToo) {
  const Tokenizer tokenizer =
      Tokenizer::Load(std::filesystem::path(WINNOW_SOURCE_DIR) /
                      "lab/models/winnow-lab")
          .value();
  const auto encoded = EncodeBannedWords({" points"}, tokenizer).value();
  std::vector<std::string> texts;
  for (const std::vector<int32_t>& word : encoded) {
    texts.push_back(tokenizer.Decode(word, false).value());
  }
  EXPECT_EQ(std::ranges::count(texts, "points"), 1);
  for (const std::string& text : texts) {
    EXPECT_TRUE(text == "points" || text == " points") << text;
  }
  EXPECT_TRUE(EncodeBannedWords({}, tokenizer).value().empty());
}

}  // namespace
}  // namespace winnow
