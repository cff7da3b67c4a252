// Texts drawn within a grammar, from every kind of vocabulary: what the tokens
// spell in the matcher must be what they decode to.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "source_dir.h"
#include "text/grammar/grammar_case.h"
#include "text/tokenize/detokenizer.h"

namespace winnow {
namespace {

using nlohmann::json;

const std::filesystem::path kSource = WINNOW_SOURCE_DIR;
constexpr int kNumTexts = 40;

constexpr const char* kZetaSchema = R"({
  "type": "object",
  "properties": {
    "zeta": {"type": "integer", "minimum": -5, "maximum": 1999},
    "name": {"type": "string", "maxLength": 12},
    "tags": {"type": "array", "items": {"enum": ["a", "b c", null, 7]},
             "minItems": 1, "maxItems": 3},
    "flag": {"type": "boolean"}
  },
  "required": ["zeta", "name", "tags"],
  "additionalProperties": false
})";

size_t CharactersIn(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

// kZetaSchema, by hand.
bool FollowsSchema(const std::string& text) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return false;
  for (const auto& [name, member] : value.items()) {
    if (name == "zeta") {
      if (!member.is_number_integer() || member < -5 || member > 1999) {
        return false;
      }
    } else if (name == "name") {
      if (!member.is_string() || CharactersIn(member.get<std::string>()) > 12) {
        return false;
      }
    } else if (name == "tags") {
      const std::set<json> known = {"a", "b c", nullptr, 7};
      if (!member.is_array() || member.empty() || member.size() > 3) {
        return false;
      }
      for (const json& tag : member) {
        if (!known.contains(tag)) return false;
      }
    } else if (name != "flag" || !member.is_boolean()) {
      return false;
    }
  }
  return value.contains("zeta") && value.contains("name") &&
         value.contains("tags") &&
         text.find("\"zeta\"") < text.find("\"tags\"");
}

struct Vocabulary {
  std::string folder;  // below the sources
  std::string end;     // the token that ends a text
  std::vector<std::string> words;
  bool has_json = true;
};

// Also what begins with a space, or is of several bytes a character.
const std::vector<std::string> kWords = {"yes",   "No way",
                                         " lead", "\xc3\xa9t\xc3\xa9",
                                         "a  b",  "\xe4\xb8\xad\xe6\x96\x87"};

class GrammarSpellingTest : public testing::TestWithParam<Vocabulary> {
 protected:
  GrammarSpellingTest()
      : tokenizer_(Tokenizer::Load(kSource / GetParam().folder).value()),
        end_(tokenizer_.IdOf(GetParam().end).value()),
        vocabulary_(VocabularyOf(tokenizer_, end_)) {}

  // The text of a draw; none where it did not end.
  std::optional<std::string> Draw(const GrammarMatcher& matcher) {
    const auto tokens = DrawText(matcher.Clone(), tokenizer_.vocab_size(), end_,
                                 kMaxDrawnTokens, random_);
    if (!tokens) return std::nullopt;
    return tokenizer_.Decode(*tokens, /*skip_special_tokens=*/true).value();
  }

  std::mt19937 random_{7};
  Tokenizer tokenizer_;
  int32_t end_;
  GrammarVocabulary vocabulary_;
};

TEST_P(GrammarSpellingTest, ChoicesAreSpelledToTheByte) {
  const std::vector<std::string>& words = GetParam().words;
  const auto matcher =
      vocabulary_.Compile({GrammarKind::kChoice, json(words).dump()});
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  std::set<std::string> seen;
  for (int i = 0; i < 10 * kNumTexts; ++i) {
    const std::optional<std::string> text = Draw(*matcher);
    if (!text) continue;  // A way that no token goes on with.
    EXPECT_NE(std::ranges::find(words, *text), words.end()) << *text;
    seen.insert(*text);
  }
  EXPECT_EQ(seen.size(), words.size());
}

// Behind a prompt no space is lost: the choice is what the prompt's text has
// more.
TEST_P(GrammarSpellingTest, ChoicesGoOnBehindAPromptToTheByte) {
  const std::vector<int32_t> prompt = tokenizer_.Encode("see", false).value();
  Detokenizer before(tokenizer_, /*skip_special_tokens=*/true);
  if (before.puts_spaces()) GTEST_SKIP() << "spaces are no token's own";
  ASSERT_TRUE(before.Follow(prompt).ok());
  EXPECT_FALSE(before.begins());
  const std::string told = tokenizer_.Decode(prompt, true).value();
  const std::vector<std::string>& words = GetParam().words;
  const auto matcher = vocabulary_.Compile(
      {GrammarKind::kChoice, json(words).dump()}, AnswerPlace::kFollowsText);
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  std::set<std::string> seen;
  for (int i = 0; i < 10 * kNumTexts; ++i) {
    const auto tokens = DrawText(matcher->Clone(), tokenizer_.vocab_size(),
                                 end_, kMaxDrawnTokens, random_);
    if (!tokens) continue;  // A way that no token goes on with.
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), tokens->begin(), tokens->end());
    const std::string whole = tokenizer_.Decode(all, true).value();
    ASSERT_TRUE(whole.starts_with(told)) << whole;
    const std::string text = whole.substr(told.size());
    EXPECT_NE(std::ranges::find(words, text), words.end()) << whole;
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), words.size());
}

TEST_P(GrammarSpellingTest, EveryTextFollowsTheSchema) {
  if (!GetParam().has_json) GTEST_SKIP() << "no JSON in its words";
  const auto matcher =
      vocabulary_.Compile({GrammarKind::kJsonSchema, kZetaSchema});
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  int num_ended = 0;
  for (int i = 0; i < kNumTexts; ++i) {
    const std::optional<std::string> text = Draw(*matcher);
    if (!text) continue;
    ++num_ended;
    EXPECT_TRUE(FollowsSchema(*text)) << *text;
  }
  EXPECT_GE(num_ended, kNumTexts / 2);
}

INSTANTIATE_TEST_SUITE_P(
    All, GrammarSpellingTest,
    testing::Values(
        Vocabulary{"tests/golden/tokenizers/llama2", "</s>", kWords},
        Vocabulary{"tests/golden/tokenizers/llama3", "<|end_of_text|>", kWords},
        Vocabulary{"tests/golden/tokenizers/mistral", "</s>", kWords},
        Vocabulary{"tests/golden/tokenizers/qwen2", "<|endoftext|>", kWords},
        Vocabulary{"tests/golden/tokenizers/unigram",
                   "</s>",
                   {"yes", "No way", " lead"},
                   false},
        Vocabulary{"tests/golden/tokenizers/unigram_bytes", "</s>", kWords},
        Vocabulary{"lab/models/winnow-lab",
                   "</s>",
                   {"the code", "answer", "what is 7"},
                   false}),
    [](const auto& instance) {
      std::string name =
          std::filesystem::path(instance.param.folder).filename();
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace winnow
