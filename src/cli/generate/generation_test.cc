#include "cli/generate/generation.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/command/golden_tokenizers.h"

namespace winnow {
namespace {

// Plays the engine.
class GenerationTest : public testing::Test {
 protected:
  std::unique_ptr<Generation> Make(std::vector<std::string> stops) {
    return std::make_unique<Generation>(
        AnswerText(Detokenizer(tokenizer_, /*skip_special_tokens=*/true),
                   StopMatcher::Create(std::move(stops)).value()),
        [this](std::string_view text) { shown_.emplace_back(text); }, batch_,
        /*prompt=*/1);
  }
  // Pushes the tokens of `text` until one is the last; how many that took.
  size_t Push(Generation& generation, std::string_view text) {
    size_t count = 0;
    const std::vector<int32_t> ids = tokenizer_.Encode(text, false).value();
    for (const int32_t id : ids) {
      ++count;
      if (!generation.OnToken({.token_id = id, .top = {}})) break;
    }
    return count;
  }
  std::string Shown() const {
    std::string all;
    for (const std::string& piece : shown_) all += piece;
    return all;
  }

  Tokenizer tokenizer_ = Tokenizer::Load(kTokenizer).value();
  std::vector<std::string> shown_;
  BatchProgress batch_{{5, 7}};
};

TEST_F(GenerationTest, ShowsTextAsItComesAndNeverHalfACharacter) {
  const auto generation = Make({});
  generation->OnPrefill(3, 7);
  EXPECT_EQ(batch_.num_read(), 3);
  const std::string text = "one \xE2\x82\xAC \xF0\x9F\x98\x80 two";
  const size_t num_tokens = Push(*generation, text);
  EXPECT_FALSE(generation->finished());
  EXPECT_EQ(Shown(), text);
  EXPECT_GT(shown_.size(), 3u);
  for (const std::string& piece : shown_) {
    EXPECT_TRUE(tokenizer_.Encode(piece, false).ok());  // UTF-8
  }
  generation->OnFinish(Completion());
  EXPECT_TRUE(generation->finished());
  EXPECT_EQ(generation->text(), text);
  EXPECT_EQ(generation->tokens().size(), num_tokens);
  EXPECT_EQ(generation->completion().reason, FinishReason::kStop);
  EXPECT_FALSE(generation->completion().error.has_value());
}

// Half a character is what it decodes to all at once: a replacement.
TEST_F(GenerationTest, WhatIsHeldBackIsShownAtTheEnd) {
  const auto generation = Make({"wxyz"});
  const int32_t first =
      tokenizer_.Encode("\xE2\x82\xAC", false).value().front();
  ASSERT_NE(*tokenizer_.Decode({&first, 1}, true), "\xE2\x82\xAC")
      << "the tokenizer knows the whole character";
  Push(*generation, "a wx");
  EXPECT_EQ(Shown(), "a ");
  generation->OnToken({.token_id = first, .top = {}});
  generation->OnFinish(Completion());
  EXPECT_EQ(Shown(), "a wx\xEF\xBF\xBD");
  EXPECT_EQ(generation->text(), Shown());
}

TEST_F(GenerationTest, AStopStringEndsTheTextBeforeItself) {
  const auto generation = Make({"yz", "q"});
  EXPECT_LT(Push(*generation, "a w x y z a w x yz k k k k"),
            tokenizer_.Encode("a w x y z a w x yz k k k k", false)->size());
  generation->OnFinish(Completion());
  EXPECT_EQ(Shown(), "a w x y z a w x ");
  EXPECT_EQ(generation->text(), Shown());
}

TEST_F(GenerationTest, AnErrorKeepsItsKindAndWhatCameBefore) {
  const auto generation = Make({});
  Push(*generation, "k");
  Completion failed;
  failed.reason = FinishReason::kError;
  failed.error = Error{ErrorCode::kResourceExhausted, "device: no memory"};
  generation->OnFinish(failed);
  const Completion& completion = generation->completion();
  EXPECT_EQ(completion.reason, FinishReason::kError);
  ASSERT_TRUE(completion.error.has_value());
  EXPECT_EQ(completion.error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(completion.error->message, "device: no memory");
  EXPECT_EQ(generation->text(), "k");
}

}  // namespace
}  // namespace winnow
