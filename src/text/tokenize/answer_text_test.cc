#include "text/tokenize/answer_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "source_dir.h"

namespace winnow {
namespace {

const std::filesystem::path kTokenizers =
    std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/tokenizers";

// However a text is cut in two, what an answer says is what is behind the first
// half: spaces between words are the second's, and so are the bytes that end a
// character.
TEST(AnswerTextTest, GoesOnBehindWhatItFollows) {
  for (const char* name : {"llama2", "llama3", "mistral", "qwen2", "unigram",
                           "unigram_bytes", "wordlevel"}) {
    const Tokenizer tokenizer = Tokenizer::Load(kTokenizers / name).value();
    const std::vector<int32_t> ids =
        tokenizer.Encode("the quick fox \xf0\x9f\xa6\x8a runs", false).value();
    const std::string whole = tokenizer.Decode(ids, true).value();
    for (size_t cut = 0; cut <= ids.size(); ++cut) {
      SCOPED_TRACE(fmt::format("{} cut={}", name, cut));
      const auto prompt = std::span(ids).first(cut);
      std::string text = tokenizer.Decode(prompt, true).value();
      while (text.ends_with("\ufffd")) text.resize(text.size() - 3);
      Detokenizer detokenizer(tokenizer, true);
      ASSERT_TRUE(detokenizer.Follow(prompt).ok());
      AnswerText answer(std::move(detokenizer),
                        StopMatcher::Create({}).value());
      for (size_t i = cut; i < ids.size(); ++i) {
        text += answer.Push(ids[i]).value();
      }
      EXPECT_EQ(text + answer.Finish().value(), whole);
    }
  }
}

// All nine of its tokens, and none more.
TEST(AnswerTextTest, StopsWithTheLastByteOfAStopString) {
  const Tokenizer tokenizer = Tokenizer::Load(kTokenizers / "llama2").value();
  const std::string stop = "\xe8\xaa\x9e";
  const std::vector<int32_t> ids =
      tokenizer.Encode("\xe6\x97\xa5\xe6\x9c\xac" + stop + stop, false).value();
  AnswerText answer(Detokenizer(tokenizer, true),
                    StopMatcher::Create({stop}).value());
  std::string text;
  size_t num_bytes = 0;
  for (const int32_t id : ids) {
    if (tokenizer.TokenText(id)->starts_with("<0x")) ++num_bytes;
    text += answer.Push(id).value();
    if (answer.stopped()) break;
  }
  EXPECT_TRUE(answer.stopped());
  EXPECT_EQ(num_bytes, 9u);
  EXPECT_EQ(text, "\xe6\x97\xa5\xe6\x9c\xac");
}

TEST(AnswerTextTest, MayEndInTheMiddleOfACharacter) {
  for (const char* name : {"llama2", "llama3"}) {
    const Tokenizer tokenizer = Tokenizer::Load(kTokenizers / name).value();
    std::vector<int32_t> ids =
        tokenizer.Encode("the fox \xf0\x9f\xa6\x8a", false).value();
    ids.pop_back();
    AnswerText answer(Detokenizer(tokenizer, true),
                      StopMatcher::Create({}).value());
    std::string text;
    for (const int32_t id : ids) text += answer.Push(id).value();
    const std::string rest = answer.Finish().value();
    EXPECT_TRUE(rest.ends_with("\ufffd"));
    EXPECT_EQ(text + rest, tokenizer.Decode(ids, true).value());
  }
}

TEST(AnswerTextTest, CountsCharactersAndNotBytes) {
  EXPECT_EQ(NumCharacters("\xc3\xa9\xc3\xa9"), 2);
}

}  // namespace
}  // namespace winnow
