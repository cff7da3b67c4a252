#include "text/answer_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "source_dir.h"

namespace winnow {
namespace {

const std::filesystem::path kTokenizers =
    std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/tokenizers";

// However a text is cut in two, what an answer says is what is behind the first
// half: spaces between words are the second's, and so are the bytes that end a
// character.
TEST(AnswerTextTest, GoesOnBehindWhatItFollows) {
  for (const char* name : {"wordlevel", "llama2", "llama3"}) {
    const Tokenizer tokenizer = Tokenizer::Load(kTokenizers / name).value();
    std::vector<int32_t> ids =
        tokenizer.Encode("the quick fox runs \xf0\x9f\xa6\x8a", false).value();
    ids.pop_back();  // It ends in the middle of a character.
    const std::string whole = tokenizer.Decode(ids, true).value();
    for (size_t cut = 0; cut < ids.size(); ++cut) {
      SCOPED_TRACE(fmt::format("{} cut={}", name, cut));
      Detokenizer before(tokenizer, true);
      std::string text;
      for (size_t i = 0; i < cut; ++i) text += before.Push(ids[i]).value();
      AnswerText answer(Detokenizer(tokenizer, true),
                        StopMatcher::Create({}).value());
      const std::vector<int64_t> followed =
          answer.Follow(std::span(ids).first(cut)).value();
      ASSERT_EQ(followed.size(), cut);
      EXPECT_EQ(std::accumulate(followed.begin(), followed.end(), int64_t{0}),
                NumCharacters(text));
      const int64_t num_before = NumCharacters(text);
      for (size_t i = cut; i < ids.size(); ++i) {
        text += answer.Push(ids[i]).value();
        EXPECT_EQ(num_before + answer.num_characters(), NumCharacters(text));
      }
      EXPECT_EQ(text + answer.Finish().value(), whole);
    }
  }
}

TEST(AnswerTextTest, CharactersAreCountedWhereAStopMayBegin) {
  EXPECT_EQ(NumCharacters("\xc3\xa9\xc3\xa9"), 2);
  const Tokenizer tokenizer =
      Tokenizer::Load(kTokenizers / "wordlevel").value();
  const std::vector<int32_t> ids =
      tokenizer.Encode("the quick fox", false).value();
  AnswerText answer(Detokenizer(tokenizer, true),
                    StopMatcher::Create({"the quick dog"}).value());
  for (const int32_t id : ids) ASSERT_TRUE(answer.Push(id).ok());
  EXPECT_EQ(answer.num_characters(),
            NumCharacters(tokenizer.Decode(ids, true).value()));
}

}  // namespace
}  // namespace winnow
