#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "text/grammar/grammar_case.h"
#include "text/grammar/regex_oracle.h"

namespace winnow {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

// The letters alone, so that every beginning can be gone on with, and `more`
// random pieces: masks of several words.
std::vector<std::string> LetterPieces(std::mt19937& random, int more) {
  std::vector<std::string> pieces = {"a", "b", "c"};
  std::set<std::string> seen(pieces.begin(), pieces.end());
  while (std::ssize(pieces) < 3 + more) {
    std::string piece;
    for (unsigned i = 0; i < 2 + random() % 4; ++i) {
      piece += "abc"[random() % 3];
    }
    if (seen.insert(piece).second) pieces.push_back(piece);
  }
  return pieces;
}

// Walks at random through a grammar and holds every mask against `viable` and
// `accepts` of the text so far.
template <typename Viable, typename Accepts>
void ExpectMasks(GrammarMatcher matcher, const std::vector<std::string>& pieces,
                 const Viable& viable, const Accepts& accepts,
                 std::mt19937& random) {
  std::string text;
  for (int step = 0; step < 8; ++step) {
    Ids expected;
    if (accepts(text)) expected.push_back(kPiecesEnd);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (viable(text + pieces[i])) {
        expected.push_back(static_cast<int32_t>(i + 1));
      }
    }
    const bool over = expected == Ids{kPiecesEnd};
    ASSERT_EQ(matcher.complete(), over && step > 0) << text;
    ASSERT_EQ(Allowed(matcher, static_cast<int>(pieces.size()) + 1), expected)
        << text;
    if (over) return;
    const size_t first = expected[0] == kPiecesEnd ? 1 : 0;
    const int32_t token =
        expected[first + random() % (expected.size() - first)];
    ASSERT_TRUE(matcher.Accept(token).ok()) << text;
    text += pieces[static_cast<size_t>(token - 1)];
  }
}

TEST(GrammarTest, MasksOfExpressionsAreThoseOfAnAutomaton) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const auto pieces = LetterPieces(random, static_cast<int>(seed % 90));
    const Tokenizer tokenizer = PiecesTokenizer(pieces);
    const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
    const RegexOracle oracle(random, 5);
    SCOPED_TRACE(oracle.pattern());
    auto matcher = vocabulary.Compile({GrammarKind::kRegex, oracle.pattern()});
    ASSERT_TRUE(matcher.ok()) << matcher.error().message;
    const auto after = [&oracle](const std::string& text) {
      return oracle.After(oracle.Begin(), text);
    };
    ExpectMasks(
        *std::move(matcher), pieces,
        [&](const std::string& text) { return !after(text).empty(); },
        [&](const std::string& text) { return oracle.Accepts(after(text)); },
        random);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(GrammarTest, MasksOfChoicesAreTheirBeginnings) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const auto pieces = LetterPieces(random, static_cast<int>(seed % 40));
    const Tokenizer tokenizer = PiecesTokenizer(pieces);
    const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
    std::vector<std::string> choices;
    for (unsigned i = 0; i < 1 + random() % 6; ++i) {
      std::string& choice = choices.emplace_back();
      for (unsigned j = 0; j < 1 + random() % 7; ++j) {
        choice += "abc"[random() % 3];
      }
    }
    auto matcher =
        vocabulary.Compile({GrammarKind::kChoice, json(choices).dump()});
    ASSERT_TRUE(matcher.ok()) << matcher.error().message;
    ExpectMasks(
        *std::move(matcher), pieces,
        [&](const std::string& text) {
          return std::ranges::any_of(choices, [&](const std::string& choice) {
            return choice.starts_with(text);
          });
        },
        [&](const std::string& text) {
          return std::ranges::find(choices, text) != choices.end();
        },
        random);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(GrammarTest, AClonesWayIsItsOwn) {
  const Tokenizer tokenizer = PiecesTokenizer({"a", "ab", "b", "c"});
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  auto matcher = vocabulary.Compile({GrammarKind::kChoice, R"(["abc", "ac"])"});
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  ASSERT_TRUE(matcher->Accept(1).ok());
  GrammarMatcher other = matcher->Clone();
  ASSERT_TRUE(matcher->Accept(3).ok());
  EXPECT_EQ(Allowed(*matcher, 5), Ids{4});
  EXPECT_EQ(Allowed(other, 5), (Ids{3, 4}));
  ASSERT_TRUE(other.Accept(4).ok());
  EXPECT_TRUE(other.complete());
  EXPECT_FALSE(matcher->complete());
}

// A token that may not come is told, and the matcher is of no use then.
TEST(GrammarTest, RefusesATokenOutsideTheGrammar) {
  const Tokenizer tokenizer = PiecesTokenizer({"a", "b"});
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  auto matcher = vocabulary.Compile({GrammarKind::kRegex, "a+"});
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  EXPECT_FALSE(matcher->Accept(2).ok());
  EXPECT_TRUE(Allowed(*matcher, 3).empty());
}

// The model has more logits than its tokenizer tokens, or fewer.
TEST(GrammarTest, OtherIdsAreNeverAllowed) {
  const Tokenizer tokenizer = PiecesTokenizer({"a", "b", "ab"});
  for (const int vocab_size : {2, 3, 31, 32, 33, 70}) {
    const auto vocabulary =
        GrammarVocabulary::Create(tokenizer, vocab_size, Ids{kPiecesEnd}, {});
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    auto matcher = vocabulary->Compile({GrammarKind::kRegex, "a*b*"});
    ASSERT_TRUE(matcher.ok()) << matcher.error().message;
    std::vector<uint32_t> words(4, 7);
    ASSERT_TRUE(matcher->Mask(words).ok());
    const uint32_t known = vocab_size == 2   ? 0b11
                           : vocab_size == 3 ? 0b111
                                             : 0b1111;
    EXPECT_EQ(words, (std::vector<uint32_t>{known, 0, 0, 0})) << vocab_size;
  }
}

// Without a token for it, what ends a text is that nothing may follow.
TEST(GrammarTest, AModelWithoutAnEnd) {
  const Tokenizer tokenizer = PiecesTokenizer({"a"});
  const auto vocabulary = GrammarVocabulary::Create(tokenizer, 2, Ids{}, {});
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  auto matcher = vocabulary->Compile({GrammarKind::kRegex, "a{2,3}"});
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Allowed(*matcher, 2), Ids{1});
    EXPECT_FALSE(matcher->complete());
    ASSERT_TRUE(matcher->Accept(1).ok());
  }
  EXPECT_TRUE(matcher->complete());
}

TEST(GrammarTest, SaysWhatIsWrong) {
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  const auto complaint = [&](GrammarKind kind, const std::string& source) {
    const auto matcher = vocabulary.Compile({kind, source});
    return matcher.ok() ? "" : matcher.error().message;
  };
  const std::vector<std::tuple<GrammarKind, std::string, std::string>> cases = {
      {GrammarKind::kRegex, "(a", "unclosed group"},
      {GrammarKind::kRegex, "(?=a)b", "look-around"},
      {GrammarKind::kRegex, "\xc3\xa9", "no token of the vocabulary"},
      {GrammarKind::kRegex, "\xff", "invalid UTF-8 at byte 0"},
      {GrammarKind::kChoice, "[1]", "invalid type"},
      {GrammarKind::kJsonSchema, "{", "EOF"},
      {GrammarKind::kJsonSchema, "3", "must be an object, true or false"},
      {GrammarKind::kJsonSchema, "false", "must have values that meet it"},
      {GrammarKind::kJsonSchema, R"({"uniqueItems": true})", "uniqueItems"},
      {GrammarKind::kJsonSchema, R"({"$ref": "http://127.0.0.1/"})", "$ref"},
      {GrammarKind::kJsonSchema, R"({"$ref": "#"})", "no token"},
      {GrammarKind::kJsonSchema, R"({"$ref": "a.json#/b"})",
       R"($ref must point into its own schema, as no other is read, is )"
       R"("a.json#/b")"},
      {GrammarKind::kJsonSchema, R"({"$ref": "#/$defs/b"})",
       R"($ref must point to something that its schema has, is "#/$defs/b")"},
      {GrammarKind::kJsonSchema, R"({"maxLength": 1000000000000})",
       "maxLength must be at most 4294967295, is 1000000000000"},
      {GrammarKind::kJsonSchema,
       R"({"oneOf": [{"type": "string"}, {"type": "string", "minLength": 2}]})",
       "oneOf must have alternatives"},
      {GrammarKind::kLark, "start: nobody", "unknown name"},
      {GrammarKind::kLark, "start: start", "no token"},
      {GrammarKind::kLark, "start: A\nA: /a/ & /b/", "must be absent"},
      {GrammarKind::kLark, "start: %json {}", "must be absent"},
  };
  for (const auto& [kind, source, expected] : cases) {
    const std::string said = complaint(kind, source);
    EXPECT_NE(said.find(expected), std::string::npos) << source << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_EQ(said.find('<'), std::string::npos) << said;
  }
}

// The bytes that a string of a grammar cannot have as they are.
TEST(GrammarTest, AChoiceMayHaveAnyCharacter) {
  std::vector<std::string> pieces = AsciiPieces();
  for (const char* piece : {"\x7f", "\x01", "\n", "\t"}) {
    if (std::ranges::find(pieces, piece) == pieces.end()) {
      pieces.push_back(piece);
    }
  }
  const Tokenizer tokenizer = PiecesTokenizer(pieces);
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  for (const std::string text : {"a\x7f", "\x7f\x01\n\t", "\\u007f/\"'"}) {
    auto matcher = vocabulary.Compile(
        {GrammarKind::kChoice, nlohmann::json({text}).dump()});
    ASSERT_TRUE(matcher.ok()) << matcher.error().message;
    std::mt19937 random(1);
    const auto drawn = DrawText(*std::move(matcher), tokenizer.vocab_size(),
                                kPiecesEnd, 20, random);
    ASSERT_TRUE(drawn.has_value());
    EXPECT_EQ(*tokenizer.Decode(*drawn, true), text);
  }
}

TEST(GrammarTest, ManyThreadsCompileFromOneVocabulary) {
  const Tokenizer tokenizer = PiecesTokenizer(AsciiPieces());
  const GrammarVocabulary vocabulary = VocabularyOf(tokenizer, kPiecesEnd);
  std::vector<std::thread> threads;
  std::atomic<int> num_right = 0;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int round = 0; round < 20; ++round) {
        auto matcher = vocabulary.Compile(
            {GrammarKind::kRegex, fmt::format("{}[x-z]{{2}}", i)});
        const auto text = DrawText(*std::move(matcher), tokenizer.vocab_size(),
                                   kPiecesEnd, 3, random);
        if (!text) continue;
        const std::string decoded = *tokenizer.Decode(*text, true);
        num_right +=
            decoded.starts_with(fmt::format("{}", i)) && decoded.size() == 3;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_right, 80);
}

}  // namespace
}  // namespace winnow
