#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "text/rust_text.h"

namespace winnow {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

// Tokens that some decoder treats in its own way.
const std::vector<std::string> kTokens = {
    "[UNK]",        "a",      "b",      " ",      "  x ",   "\u2581", "\u2581a",
    "\u2581\u2581", "<0xE4>", "<0xBD>", "<0xA0>", "<0xFF>", "<0x41>", "##c",
    "d</w>",        "'s",     " n't",   ".",      "|",      "<pad>",  "\u0120e",
    "\u00e4",       "\u00bd", "\u0142", "\u4f60", "lo",     "ng er",  "</w>"};

// A word-level tokenizer of kTokens, with `decoder`; "a" is special.
Tokenizer MakeTokenizer(const json& decoder) {
  json vocab = json::object();
  for (size_t i = 0; i < kTokens.size(); ++i) vocab[kTokens[i]] = i;
  const json special = {{"id", 1},
                        {"content", "a"},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"special", true},
                        {"single_word", false},
                        {"normalized", false}};
  const json all = {
      {"version", "1.0"},
      {"added_tokens", {special}},
      {"decoder", decoder},
      {"model",
       {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "[UNK]"}}}};
  return Tokenizer::FromJson("test", all.dump(), {}).value();
}

Ids IdsOf(const Tokenizer& tokenizer, const std::vector<std::string>& tokens) {
  Ids ids;
  for (const std::string& token : tokens) {
    ids.push_back(tokenizer.IdOf(token).value());
  }
  return ids;
}

std::vector<std::string> Pieces(const Tokenizer& tokenizer, const Ids& ids,
                                bool skip_special_tokens = false) {
  Detokenizer detokenizer(tokenizer, skip_special_tokens);
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    pieces.push_back(detokenizer.Push(id).value());
  }
  pieces.push_back(detokenizer.Finish().value());
  return pieces;
}

json Sequence(std::vector<json> decoders) {
  return {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
}

json Replace(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"},
          {"pattern", {{"String", pattern}}},
          {"content", content}};
}

json Strip(const std::string& content, int start, int stop) {
  return {{"type", "Strip"},
          {"content", content},
          {"start", start},
          {"stop", stop}};
}

json Metaspace(const std::string& scheme) {
  return {{"type", "Metaspace"},
          {"replacement", "\u2581"},
          {"prepend_scheme", scheme},
          {"split", true}};
}

json WordPiece(bool cleanup) {
  return {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", cleanup}};
}

const json kByteLevel = {{"type", "ByteLevel"},
                         {"add_prefix_space", true},
                         {"trim_offsets", true},
                         {"use_regex", true}};
const json kFuse = {{"type", "Fuse"}};
const json kByteFallback = {{"type", "ByteFallback"}};
const json kBpe = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
const json kCtc = {{"type", "CTC"},
                   {"pad_token", "<pad>"},
                   {"word_delimiter_token", "|"},
                   {"cleanup", true}};

// Each decoder, before and after all tokens were made one.
const std::vector<json> kDecoders = {
    nullptr,
    kByteLevel,
    kFuse,
    kByteFallback,
    kBpe,
    kCtc,
    WordPiece(true),
    WordPiece(false),
    Metaspace("always"),
    Metaspace("first"),
    Metaspace("never"),
    Replace("\u2581", " "),
    Replace("ng", "n"),
    Strip(" ", 1, 0),
    Sequence({Replace("\u2581", " "), kByteFallback, kFuse, Strip(" ", 1, 0)}),
    Sequence({Replace("\u2581", " "), kByteFallback, kFuse, Strip(" ", 2, 2)}),
    Sequence({kByteFallback, Metaspace("always")}),
    Sequence({kByteFallback, WordPiece(true)}),
    Sequence({kFuse, Replace("\u2581", " ")}),
    Sequence({kFuse, Replace("long", "short")}),
    Sequence({kFuse, Metaspace("always")}),
    Sequence({kFuse, WordPiece(true)}),
    Sequence({kFuse, kBpe}),
    Sequence({kFuse, kByteFallback}),
    Sequence({kFuse, kByteLevel}),
    Sequence({kFuse, kCtc}),
    Sequence({kByteLevel, Strip("d", 1, 1)}),
    Sequence({Sequence({kCtc, Metaspace("always")}), kFuse}),
};

TEST(DetokenizerTest, StreamsWhatDecodeGivesForEveryDecoder) {
  for (const json& decoder : kDecoders) {
    SCOPED_TRACE(decoder.dump());
    const Tokenizer tokenizer = MakeTokenizer(decoder);
    std::mt19937 random(7);
    int num_compared = 0;
    for (int round = 0; round < 600; ++round) {
      const bool skip = random() % 2 == 0;
      Ids ids(random() % 12);
      // The highest id has no token; runs make what repeats likelier.
      for (size_t i = 0; i < ids.size(); ++i) {
        ids[i] = i > 0 && random() % 4 == 0
                     ? ids[i - 1]
                     : static_cast<int32_t>(random() % (kTokens.size() + 1));
      }
      const auto whole = tokenizer.Decode(ids, skip);
      if (!whole.ok()) continue;  // An assertion in the library.
      ++num_compared;
      std::string streamed;
      for (const std::string& piece : Pieces(tokenizer, ids, skip)) {
        ASSERT_TRUE(internal::CheckUtf8("piece", piece).ok());
        streamed += piece;
      }
      ASSERT_EQ(streamed, *whole) << testing::PrintToString(ids);
    }
    EXPECT_GE(num_compared, 400);
  }
}

TEST(DetokenizerTest, HoldsBackHalfACharacterOfByteLevelTokens) {
  const Tokenizer tokenizer = MakeTokenizer(kByteLevel);
  // U+4F60 is e4 bd a0: the characters U+00E4, U+00BD, U+0142.
  const Ids ids =
      IdsOf(tokenizer, {"\u0120e", "\u00e4", "\u00bd", "\u0142", "b"});
  EXPECT_EQ(Pieces(tokenizer, ids),
            (std::vector<std::string>{" e", "", "", "\u4f60", "b", ""}));
  EXPECT_EQ(Pieces(tokenizer, IdsOf(tokenizer, {"\u00e4", "b", "\u00e4"})),
            (std::vector<std::string>{"", "\ufffdb", "", "\ufffd"}));
  // What no byte can complete any more does not wait for one.
  EXPECT_EQ(Pieces(tokenizer, IdsOf(tokenizer, {"\u00bd", "\u00e4", "\u00e4"})),
            (std::vector<std::string>{"\ufffd", "", "\ufffd", "\ufffd"}));
}

TEST(DetokenizerTest, HoldsBackARunOfByteTokensThatMayStillBreak) {
  const Tokenizer tokenizer = MakeTokenizer(kByteFallback);
  const Ids good = IdsOf(tokenizer, {"<0xE4>", "<0xBD>", "<0xA0>", "b"});
  EXPECT_EQ(Pieces(tokenizer, good),
            (std::vector<std::string>{"", "", "", "\u4f60b", ""}));
  const Ids bad =
      IdsOf(tokenizer, {"<0x41>", "<0x41>", "<0xFF>", "<0x41>", "b"});
  EXPECT_EQ(Pieces(tokenizer, bad),
            (std::vector<std::string>{"", "", "\ufffd\ufffd\ufffd", "\ufffd",
                                      "b", ""}));
}

TEST(DetokenizerTest, EmitsEachWordAtOnceWithoutDecoder) {
  const Tokenizer tokenizer = MakeTokenizer(nullptr);
  EXPECT_EQ(Pieces(tokenizer, IdsOf(tokenizer, {"lo", "a", "b"}), true),
            (std::vector<std::string>{"lo", "", " b", ""}));
}

TEST(DetokenizerTest, CountsIdsWithoutTokenAsAbsent) {
  const Tokenizer tokenizer = MakeTokenizer(nullptr);
  EXPECT_EQ(Pieces(tokenizer, {-1, 2, 1 << 30}),
            (std::vector<std::string>{"", "b", "", ""}));
}

TEST(DetokenizerTest, OutlivesTheTokenizer) {
  std::optional<Detokenizer> detokenizer;
  {
    const Tokenizer tokenizer = MakeTokenizer(nullptr);
    detokenizer.emplace(tokenizer, false);
  }
  EXPECT_EQ(detokenizer->Push(2).value(), "b");
}

// Decoding all over again for every token would take hours.
TEST(DetokenizerTest, CostsTheSameForEveryTokenOfALongRun) {
  const Tokenizer tokenizer =
      MakeTokenizer(Sequence({kByteFallback, kFuse, Strip(" ", 1, 0)}));
  const int32_t byte = tokenizer.IdOf("<0x41>").value();
  Detokenizer detokenizer(tokenizer, true);
  constexpr size_t kNumTokens = 300'000;
  size_t num_bytes = 0;
  for (size_t i = 0; i < kNumTokens; ++i) {
    num_bytes += detokenizer.Push(byte).value().size();
  }
  num_bytes += detokenizer.Finish().value().size();
  EXPECT_EQ(num_bytes, kNumTokens);
}

TEST(DetokenizerDeathTest, TakesNothingAfterItsEnd) {
  const Tokenizer tokenizer = MakeTokenizer(nullptr);
  Detokenizer detokenizer(tokenizer, false);
  EXPECT_EQ(detokenizer.Finish().value(), "");
  EXPECT_DEATH((void)detokenizer.Push(1), "CHECK failed: !finished_");
}

}  // namespace
}  // namespace winnow
