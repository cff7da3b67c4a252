#include "text/tokenize/detokenizer.h"

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
    "\u00e4",       "\u00bd", "\u0142", "\u4f60", "lo",     "ng er",  "</w>",
    "\ufffd"};

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

// Whether a run of byte tokens is told character by character: what follows
// joins its strings, or nothing does.
bool TellsCharacters(const json& decoder) {
  if (decoder == kByteFallback) return true;
  if (!decoder.is_object() || decoder["type"] != "Sequence") return false;
  const json& links = decoder["decoders"];
  for (size_t i = 0; i + 1 < links.size(); ++i) {
    if (links[i] == kByteFallback) return links[i + 1] == kFuse;
  }
  return false;
}

// How many of the byte tokens from `begin` on are a character.
size_t CharacterAt(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string bytes;
  for (const int32_t id : ids.first(std::min(ids.size(), size_t{4}))) {
    const std::string token = tokenizer.TokenText(id).value_or("");
    if (!token.starts_with("<0x")) return 0;
    bytes += static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
    if (internal::CheckUtf8("character", bytes).ok()) return bytes.size();
  }
  return 0;
}

// `ids` with a token U+FFFD for each byte token that belongs to no character.
Ids Mended(const Tokenizer& tokenizer, const Ids& ids, bool skip) {
  Ids counted;
  for (const int32_t id : ids) {
    const bool is_there = tokenizer.TokenText(id).has_value();
    if (is_there && !(skip && tokenizer.IsSpecial(id))) counted.push_back(id);
  }
  Ids mended;
  for (size_t i = 0; i < counted.size();) {
    const size_t size = CharacterAt(tokenizer, std::span(counted).subspan(i));
    const bool is_byte = tokenizer.TokenText(counted[i])->starts_with("<0x");
    const bool is_broken = is_byte && size == 0;
    mended.insert(
        mended.end(), counted.begin() + static_cast<int64_t>(i),
        counted.begin() + static_cast<int64_t>(i + std::max(size, size_t{1})));
    if (is_broken) mended.back() = tokenizer.IdOf("\ufffd").value();
    i += std::max(size, size_t{1});
  }
  return mended;
}

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
      const auto whole = tokenizer.Decode(
          TellsCharacters(decoder) ? Mended(tokenizer, ids, skip) : ids, skip);
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

// As the decoding stream of tokenizers 0.23.3 has it; of bytes that are no
// character, as SentencePiece 0.2.1 decodes them.
TEST(DetokenizerTest, TellsACharacterWithTheLastOfItsByteTokens) {
  for (const json& decoder :
       {kByteFallback, Sequence({kByteFallback, kFuse})}) {
    const Tokenizer tokenizer = MakeTokenizer(decoder);
    const Ids good = IdsOf(
        tokenizer, {"<0xE4>", "<0xBD>", "<0xA0>", "<0x41>", "<0xE4>", "b"});
    EXPECT_EQ(
        Pieces(tokenizer, good),
        (std::vector<std::string>{"", "", "\u4f60", "A", "", "\ufffdb", ""}));
    const Ids bad = IdsOf(tokenizer, {"<0x41>", "<0xE4>", "<0xBD>", "<0x41>",
                                      "<0xFF>", "<0xA0>", "<0xE4>"});
    EXPECT_EQ(Pieces(tokenizer, bad),
              (std::vector<std::string>{"A", "", "", "\ufffd\ufffdA", "\ufffd",
                                        "\ufffd", "", "\ufffd"}));
  }
}

// A space goes before each of its strings but the first.
TEST(DetokenizerTest, HoldsBackARunOfByteTokensWhereStringsAreNotJoined) {
  const Tokenizer tokenizer =
      MakeTokenizer(Sequence({kByteFallback, WordPiece(false)}));
  const Ids good = IdsOf(tokenizer, {"<0xE4>", "<0xBD>", "<0xA0>", "b"});
  EXPECT_EQ(Pieces(tokenizer, good),
            (std::vector<std::string>{"", "", "", "\u4f60 b", ""}));
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

// Whatever the decoder, and however long what stands before.
TEST(DetokenizerTest, GoesOnBehindWhatItFollows) {
  for (const json& decoder : kDecoders) {
    SCOPED_TRACE(decoder.dump());
    const Tokenizer tokenizer = MakeTokenizer(decoder);
    std::mt19937 random(11);
    int num_compared = 0;
    for (int round = 0; round < 400; ++round) {
      const bool skip = random() % 2 == 0;
      Ids ids(random() % 60);
      for (int32_t& id : ids) {
        id = static_cast<int32_t>(random() % kTokens.size());
      }
      const auto cut = static_cast<int64_t>(random() % (ids.size() + 1));
      const Ids first(ids.begin(), ids.begin() + cut);
      const auto told = tokenizer.Decode(
          TellsCharacters(decoder) ? Mended(tokenizer, first, skip) : first,
          skip);
      std::string whole;
      if (!told.ok() || !tokenizer.Decode(ids, skip).ok()) continue;
      for (const std::string& piece : Pieces(tokenizer, ids, skip)) {
        whole += piece;
      }
      // Where the first half ends in the middle of a character.
      if (!whole.starts_with(*told)) continue;
      ++num_compared;
      Detokenizer detokenizer(tokenizer, skip);
      ASSERT_TRUE(detokenizer.Follow(first).ok());
      std::string rest;
      for (auto at = ids.begin() + cut; at != ids.end(); ++at) {
        const TokenAddition ahead = detokenizer.Peek(*at).value();
        const std::string piece = detokenizer.Push(*at).value();
        ASSERT_EQ(ahead.text, piece);
        rest += piece;
      }
      rest += detokenizer.Finish().value();
      ASSERT_EQ(*told + rest, whole) << testing::PrintToString(ids) << cut;
    }
    EXPECT_GE(num_compared, 250);
  }
}

// "\u4f60" is e4 bd a0, and what is told before it has the first two.
TEST(DetokenizerTest, EndsTheCharacterThatWasBegunBeforeIt) {
  const Tokenizer tokenizer = MakeTokenizer(kByteLevel);
  for (const bool completes : {true, false}) {
    Detokenizer detokenizer(tokenizer, false);
    ASSERT_TRUE(
        detokenizer.Follow(IdsOf(tokenizer, {"b", "\u00e4", "\u00bd"})).ok());
    const std::string last = completes ? "\u0142" : "b";
    EXPECT_EQ(detokenizer.Push(tokenizer.IdOf(last).value()).value(),
              completes ? "\u4f60" : "b");
    EXPECT_EQ(detokenizer.Finish().value(), "");
  }
}

TEST(DetokenizerTest, KnowsWhetherATextBegins) {
  const Tokenizer tokenizer = MakeTokenizer(Sequence(
      {Replace("\u2581", " "), kByteFallback, kFuse, Strip(" ", 1, 0)}));
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_TRUE(detokenizer.begins());
  // "a" is special, and skipped.
  ASSERT_TRUE(detokenizer.Follow(IdsOf(tokenizer, {"a"})).ok());
  EXPECT_TRUE(detokenizer.begins());
  EXPECT_EQ(detokenizer.Clone().Push(tokenizer.IdOf("\u2581a").value()).value(),
            "a");
  ASSERT_TRUE(detokenizer.Follow(IdsOf(tokenizer, {"b"})).ok());
  EXPECT_FALSE(detokenizer.begins());
  EXPECT_EQ(detokenizer.Push(tokenizer.IdOf("\u2581a").value()).value(), " a");
  EXPECT_FALSE(Detokenizer(MakeTokenizer(kByteLevel), true).begins());
}

// Half characters have no text of their own, and their bytes all the same.
TEST(DetokenizerTest, TellsATokensOwnBytes) {
  const auto bytes_of = [](const json& decoder, const std::string& before,
                           const std::string& token, bool skip = false) {
    const Tokenizer tokenizer = MakeTokenizer(decoder);
    Detokenizer detokenizer(tokenizer, skip);
    EXPECT_TRUE(detokenizer.Push(tokenizer.IdOf(before).value()).ok());
    return detokenizer.Peek(tokenizer.IdOf(token).value()).value();
  };
  EXPECT_EQ(bytes_of(kByteLevel, "\u00e4", "\u00bd").bytes, "\xbd");
  EXPECT_EQ(bytes_of(kByteLevel, "\u00e4", "\u00bd").text, "");
  EXPECT_TRUE(bytes_of(kByteLevel, "\u00e4", "\u00bd").is_open);
  EXPECT_EQ(bytes_of(kByteLevel, "\u00e4", "b").bytes, "b");
  EXPECT_EQ(bytes_of(kByteLevel, "\u00e4", "b").text, "\ufffdb");
  const json llama = Sequence(
      {Replace("\u2581", " "), kByteFallback, kFuse, Strip(" ", 1, 0)});
  EXPECT_EQ(bytes_of(llama, "b", "<0xE4>").bytes, "\xe4");
  EXPECT_EQ(bytes_of(llama, "<0xE4>", "\u2581a").bytes, " a");
  EXPECT_EQ(bytes_of(llama, "b", "\u2581\u2581").bytes, "  ");
  EXPECT_FALSE(bytes_of(llama, "b", "\u2581a").is_open);
  const TokenAddition skipped = bytes_of(llama, "b", "a", /*skip=*/true);
  EXPECT_TRUE(skipped.is_skipped);
  EXPECT_EQ(skipped.text, "");
  EXPECT_EQ(skipped.bytes, "a");
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
