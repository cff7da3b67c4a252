#include "text/tokenize/tokenizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "source_dir.h"

namespace winnow {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

json AddedToken(int64_t id, const std::string& content, bool special) {
  return {{"id", id},           {"content", content}, {"special", special},
          {"lstrip", false},    {"rstrip", false},    {"single_word", false},
          {"normalized", false}};
}

// Words between white space: hello 0, world 1, [UNK] 2; <eot> 3 is special,
// <tool> 4 is not.
json WordTokenizer() {
  return {{"version", "1.0"},
          {"added_tokens",
           {AddedToken(3, "<eot>", true), AddedToken(4, "<tool>", false)}},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
          {"model",
           {{"type", "WordLevel"},
            {"vocab", {{"hello", 0}, {"world", 1}, {"[UNK]", 2}}},
            {"unk_token", "[UNK]"}}}};
}

Tokenizer TokenizerFromJson(const json& tokenizer,
                            const std::optional<std::string>& config = {}) {
  return Tokenizer::FromJson("dir", tokenizer.dump(), config).value();
}

// The message with which loading fails; "" where it does not.
std::string Refusal(const std::string& tokenizer_json,
                    const std::optional<std::string>& config = {}) {
  const auto tokenizer = Tokenizer::FromJson("dir", tokenizer_json, config);
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

// A folder of this test's own, removed with it.
class TokenizerFileTest : public testing::Test {
 protected:
  TokenizerFileTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                fmt::format("tokenizer_test_{}", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~TokenizerFileTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(TokenizerFileTest, LoadsAFolder) {
  ASSERT_TRUE(
      WriteFile(folder_ / "tokenizer.json", WordTokenizer().dump()).ok());
  const auto bare = Tokenizer::Load(folder_);
  ASSERT_TRUE(bare.ok()) << bare.error().message;
  EXPECT_EQ(bare->eos_id(), std::nullopt);
  ASSERT_TRUE(
      WriteFile(folder_ / "tokenizer_config.json", R"({"eos_token": "<eot>"})")
          .ok());
  EXPECT_EQ(Tokenizer::Load(folder_).value().eos_id(), 3);
}

TEST_F(TokenizerFileTest, NamesTheFileThatIsMissingOrTooLarge) {
  const std::string path = (folder_ / "tokenizer.json").string();
  const auto missing = Tokenizer::Load(folder_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(missing.error().message.starts_with(path));
  ASSERT_TRUE(WriteFile(path, "{}").ok());
  std::filesystem::resize_file(path, (size_t{256} << 20) + 1);
  const auto large = Tokenizer::Load(folder_);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().message,
            path + ": file must be at most 268435456 bytes, is 268435457");
}

TEST(TokenizerTest, KnowsItsTokens) {
  const Tokenizer tokenizer = TokenizerFromJson(WordTokenizer());
  EXPECT_EQ(tokenizer.vocab_size(), 5);
  EXPECT_EQ(tokenizer.TokenText(1), "world");
  EXPECT_EQ(tokenizer.TokenText(3), "<eot>");
  EXPECT_EQ(tokenizer.TokenText(5), std::nullopt);
  EXPECT_EQ(tokenizer.TokenText(-1), std::nullopt);
  EXPECT_EQ(tokenizer.IdOf("<tool>"), 4);
  EXPECT_EQ(tokenizer.IdOf("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.IdOf("\xff"), std::nullopt);
  EXPECT_TRUE(tokenizer.IsSpecial(3));
  for (const int32_t id : {-1, 0, 4, 5}) EXPECT_FALSE(tokenizer.IsSpecial(id));
}

TEST(TokenizerTest, EncodesSpecialTokensInsideTextAndSkipsThemInText) {
  const Tokenizer tokenizer = TokenizerFromJson(WordTokenizer());
  const Ids ids = tokenizer.Encode("hello<eot>world <tool> x", false).value();
  EXPECT_EQ(ids, (Ids{0, 3, 1, 4, 2}));
  EXPECT_EQ(tokenizer.Decode(ids, true).value(), "hello world <tool> [UNK]");
  EXPECT_EQ(tokenizer.Decode(Ids{0, 3, 77, -1}, false).value(), "hello <eot>");
}

TEST(TokenizerTest, NamesTheByteThatIsNotUtf8) {
  const Tokenizer tokenizer = TokenizerFromJson(WordTokenizer());
  const auto bad = tokenizer.Encode("hello \xe4\xbd!", false);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bad.error().message, "text: invalid UTF-8 at byte 6 (0xe4)");
  EXPECT_EQ(tokenizer.Encode(std::string_view("hello\0", 6), false).value(),
            Ids{2});
}

TEST(TokenizerTest, IgnoresTruncationAndPaddingLeftByTraining) {
  json tokenizer = WordTokenizer();
  tokenizer["truncation"] = {{"direction", "Right"},
                             {"max_length", 2},
                             {"strategy", "LongestFirst"},
                             {"stride", 0}};
  tokenizer["padding"] = {{"strategy", {{"Fixed", 9}}},
                          {"direction", "Right"},
                          {"pad_to_multiple_of", nullptr},
                          {"pad_id", 2},
                          {"pad_type_id", 0},
                          {"pad_token", "[UNK]"}};
  EXPECT_EQ(
      TokenizerFromJson(tokenizer).Encode("hello hello hello", true).value(),
      (Ids{0, 0, 0}));
}

TEST(TokenizerTest, TakesAddedTokensFromTheConfig) {
  const json config = {{"bos_token", {{"content", "<s>"}}},
                       {"eos_token", nullptr},
                       {"added_tokens_decoder",
                        {{"3", {{"content", "<eot>"}, {"special", true}}},
                         {"5", {{"content", "<s>"}, {"special", true}}}}}};
  const Tokenizer tokenizer = TokenizerFromJson(WordTokenizer(), config.dump());
  EXPECT_EQ(tokenizer.vocab_size(), 6);
  EXPECT_EQ(tokenizer.bos_id(), 5);
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
  EXPECT_TRUE(tokenizer.IsSpecial(5));
  EXPECT_EQ(tokenizer.Encode("hello<s>", false).value(), (Ids{0, 5}));
}

TEST(TokenizerTest, RefusesIdsThatContradictTheFiles) {
  json tokenizer = WordTokenizer();
  tokenizer["added_tokens"][1]["id"] = 40;
  EXPECT_EQ(Refusal(tokenizer.dump()),
            "dir/tokenizer.json: added token \"<tool>\" must have the id 40, "
            "has 4");
  const json config = {{"added_tokens_decoder", {{"9", {{"content", "<s>"}}}}}};
  EXPECT_EQ(Refusal(WordTokenizer().dump(), config.dump()),
            "dir/tokenizer_config.json: added token \"<s>\" must have the id "
            "9, has 5");
  tokenizer = WordTokenizer();
  tokenizer["added_tokens"].clear();
  tokenizer["model"]["vocab"]["far"] = 4294967295;
  EXPECT_EQ(Refusal(tokenizer.dump()),
            "dir/tokenizer.json: token \"far\": id must be at most 2147483646, "
            "is 4294967295");
}

// The library would allocate what the table claims: 2 GiB.
TEST(TokenizerTest, RefusesACharsmapThatClaimsMoreThanItHolds) {
  json tokenizer = WordTokenizer();
  tokenizer["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Precompiled"}, {"precompiled_charsmap", "////fwAA"}}}}};
  EXPECT_EQ(Refusal(tokenizer.dump()),
            "dir/tokenizer.json: precompiled_charsmap: table must be at most "
            "6 bytes, claims 2147483647");
}

// Forty doublings of a letter are a terabyte.
TEST(TokenizerTest, RefusesNormalizersThatMakeTextsAbsurdlyLong) {
  const auto with_steps = [](int count, const json& pattern,
                             const std::string& content) {
    const json step = {
        {"type", "Replace"}, {"pattern", pattern}, {"content", content}};
    json tokenizer = WordTokenizer();
    tokenizer["normalizer"] = {
        {"type", "Sequence"},
        {"normalizers", std::vector<json>(static_cast<size_t>(count), step)}};
    return tokenizer.dump();
  };
  const json letter = {{"String", "a"}}, regex = {{"Regex", "a*"}};
  EXPECT_EQ(Refusal(with_steps(12, letter, "aa")), "");
  EXPECT_EQ(Refusal(with_steps(13, letter, "aa")),
            "dir/tokenizer.json: normalizer: may make a text at most 4096 "
            "times as long, makes it 8192 times");
  EXPECT_NE(Refusal(with_steps(400, letter, "aaaaaaaaaaaaaaaa")), "");
  EXPECT_NE(Refusal(with_steps(13, regex, "b")), "");
  EXPECT_EQ(Refusal(with_steps(99, {{"String", "aa"}}, "b")), "");
}

TEST(TokenizerTest, RefusesBrokenFilesInOneLineThatNamesThem) {
  json wrong_type = WordTokenizer();
  wrong_type["model"]["vocab"] = 7;
  json unknown = WordTokenizer();
  unknown["decoder"] = {{"type", "Guess"}};
  json bad_regex = WordTokenizer();
  bad_regex["pre_tokenizer"] = {{"type", "Split"},
                                {"pattern", {{"Regex", "(("}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  const std::string nested(100'000, '[');
  const std::string deep =
      R"({"normalizer": )" + nested + std::string(100'000, ']') + "}";
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"),
        std::string("{\"version\": \"9\"}"), std::string("\xff\xfe"),
        std::string(1000, '\0'), wrong_type.dump(), unknown.dump(),
        bad_regex.dump(), nested, deep}) {
    const std::string message = Refusal(text);
    SCOPED_TRACE(message);
    EXPECT_TRUE(message.starts_with("dir/tokenizer.json: "));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_LT(message.size(), 1000u);
    EXPECT_FALSE(message.ends_with(": "));
  }
  EXPECT_EQ(Refusal(WordTokenizer().dump(), "[1]"),
            "dir/tokenizer_config.json: must be a JSON object");
}

// The library asserts that a search does not fail; this one gives up after
// ten million steps.
TEST(TokenizerTest, ReportsAPatternThatBacktracksTooLong) {
  json tokenizer = WordTokenizer();
  tokenizer["pre_tokenizer"] = {{"type", "Split"},
                                {"pattern", {{"Regex", "(x+x+)+y"}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  const auto ids =
      TokenizerFromJson(tokenizer).Encode(std::string(40, 'x'), false);
  ASSERT_FALSE(ids.ok());
  EXPECT_TRUE(ids.error().message.starts_with("dir/tokenizer.json: "))
      << ids.error().message;
}

// Byte-level, a token for each byte and one for "abcdefgh".
json ByteTokenizer() {
  json vocab;
  int32_t id = 0;
  const auto add = [&](const std::string& token) { vocab[token] = id++; };
  for (int c = 0; c < 0x144; ++c) {
    const bool printable = (c >= '!' && c <= '~') || (c >= 0xa1 && c != 0xad);
    if (!printable) continue;
    add(c < 0x80 ? std::string(1, static_cast<char>(c))
                 : std::string{static_cast<char>(0xc0 | (c >> 6)),
                               static_cast<char>(0x80 | (c & 0x3f))});
  }
  json merges = json::array();
  const std::string letters = "abcdefgh";
  for (size_t i = 1; i < letters.size(); ++i) {
    add(letters.substr(0, i + 1));
    merges.push_back({letters.substr(0, i), letters.substr(i, 1)});
  }
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", false},
            {"use_regex", false}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

std::string RepeatedPiece(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(TokenizerTest, BoundsWhatATokenStandsFor) {
  EXPECT_FALSE(TokenizerFromJson(WordTokenizer()).max_token_bytes());
  json bytes = ByteTokenizer();
  EXPECT_EQ(TokenizerFromJson(bytes).max_token_bytes(), 8);
  bytes["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(TokenizerFromJson(bytes).max_token_bytes(), 32);
  bytes["added_tokens"] = {AddedToken(263, "\u4f60\u597d\u4f60\u597d", true)};
  EXPECT_EQ(TokenizerFromJson(bytes).max_token_bytes(), 4 * 12);
  bytes["added_tokens"][0]["rstrip"] = true;
  EXPECT_FALSE(TokenizerFromJson(bytes).max_token_bytes());
  bytes = ByteTokenizer();
  bytes["normalizer"] = {
      {"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  EXPECT_FALSE(TokenizerFromJson(bytes).max_token_bytes());
  bytes = ByteTokenizer();
  const json split = {{"type", "Split"},
                      {"pattern", {{"String", " "}}},
                      {"behavior", "Removed"},
                      {"invert", false}};
  bytes["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers", {split, bytes["pre_tokenizer"]}}};
  EXPECT_FALSE(TokenizerFromJson(bytes).max_token_bytes());
  bytes["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Isolated";
  EXPECT_EQ(TokenizerFromJson(bytes).max_token_bytes(), 8);
  bytes = ByteTokenizer();
  bytes["model"]["vocab"].erase("\u00a1");
  EXPECT_FALSE(TokenizerFromJson(bytes).max_token_bytes());
}

TEST(TokenizerTest, NoTextHasFewerTokensThanItsBytesSay) {
  json composed = ByteTokenizer();
  composed["normalizer"] = {{"type", "NFC"}};
  std::vector<Tokenizer> tokenizers;
  tokenizers.push_back(TokenizerFromJson(ByteTokenizer()));
  tokenizers.push_back(TokenizerFromJson(composed));
  for (const char* name : {"llama3", "qwen2", "mistral"}) {
    tokenizers.push_back(
        Tokenizer::Load(std::filesystem::path(WINNOW_SOURCE_DIR) /
                        "tests/golden/tokenizers" / name)
            .value());
  }
  for (const Tokenizer& tokenizer : tokenizers) {
    ASSERT_TRUE(tokenizer.max_token_bytes());
    std::vector<std::string> pieces = {
        "abcdefgh", "\u212a", "\u1100\u1161\u11a8",
        "e\u0301",  "\u00e9", " ",
        "\n",       "0",      "\U0001f600",
        "\u4f60",   "\u0390", "\u2126"};
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      const Result<std::string> text = tokenizer.Decode({&id, 1}, false);
      if (text.ok() && Tokenizer::CheckText(*text).ok())
        pieces.push_back(*text);
    }
    for (const std::string& piece : pieces) {
      const std::string text = RepeatedPiece(piece, 64);
      const Ids ids = tokenizer.Encode(text, false).value();
      EXPECT_GE(std::ssize(ids) * *tokenizer.max_token_bytes(),
                std::ssize(text))
          << piece;
    }
  }
}

TEST(TokenizerTest, GivesUpWhatNobodyWaitsFor) {
  const Tokenizer tokenizer = TokenizerFromJson(WordTokenizer());
  std::atomic<bool> is_left = false;
  EXPECT_EQ(tokenizer.Encode("hello world", true, &is_left).value(),
            (Ids{0, 1}));
  is_left = true;
  const auto unbegun = tokenizer.Encode("hello world", true, &is_left);
  ASSERT_FALSE(unbegun.ok());
  EXPECT_EQ(unbegun.error().code, ErrorCode::kCancelled);
}

TEST(TokenizerTest, GivesUpInTheMiddle) {
  const Tokenizer tokenizer = TokenizerFromJson(WordTokenizer());
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "hello ";
  std::atomic<bool> has_begun = false;
  std::atomic<bool> is_left = false;
  std::thread leaves([&] {
    has_begun.wait(false);
    is_left = true;
  });
  has_begun = true;
  has_begun.notify_one();
  const auto ids = tokenizer.Encode(text, true, &is_left);
  leaves.join();
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kCancelled);
}

TEST(TokenizerTest, IsSharedByThreads) {
  const Tokenizer tokenizer =
      Tokenizer::Load(std::filesystem::path(WINNOW_SOURCE_DIR) /
                      "tests/golden/tokenizers/llama3")
          .value();
  const std::string text = "Several threads, one vocabulary: don't mix 12345.";
  const Ids expected = tokenizer.Encode(text, true).value();
  std::atomic<int> num_equal = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const auto ids = tokenizer.Encode(text, true);
        const auto back = tokenizer.Decode(expected, true);
        num_equal += ids.value() == expected && back.value() == text ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_equal, 800);
}

}  // namespace
}  // namespace winnow
