#include "serve/answer/token_texts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "source_dir.h"
#include "text/tokenize/answer_text.h"

namespace winnow {
namespace {

const std::filesystem::path kTokenizerFolder =
    std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/tokenizers";

std::string JoinedTexts(const std::vector<ShownToken>& tokens) {
  std::string text;
  for (const ShownToken& token : tokens) text += token.text;
  return text;
}

void AppendTokens(std::vector<ShownToken> more,
                  std::vector<ShownToken>& tokens) {
  for (ShownToken& token : more) tokens.push_back(std::move(token));
}

// An answer's text, and what was told of its tokens up to each piece of it.
struct ToldAnswer {
  std::string text;
  std::vector<ShownToken> tokens;
};

ToldAnswer TellAnswer(const Tokenizer& tokenizer,
                      const std::vector<int32_t>& ids,
                      const std::vector<std::string>& stops) {
  AnswerText text(Detokenizer(tokenizer, true),
                  StopMatcher::Create(stops).value());
  TokenTexts texts;
  ToldAnswer told;
  for (const int32_t id : ids) {
    texts.Add(
        ShowToken({.token_id = id, .logprob = 0, .top = {}}, [&](int32_t each) {
          return text.Peek(each);
        }).value());
    const std::string piece = text.Push(id).value();
    told.text += piece;
    AppendTokens(texts.Told(piece), told.tokens);
    EXPECT_TRUE(told.text.starts_with(JoinedTexts(told.tokens)));
    if (text.stopped()) break;
  }
  if (!text.stopped()) {
    const std::string rest = text.Finish().value();
    told.text += rest;
    AppendTokens(texts.Told(rest), told.tokens);
  }
  AppendTokens(texts.End(), told.tokens);
  return told;
}

// Whatever the tokens, and wherever a stop string cuts them off.
TEST(TokenTextsTest, TokensJoinedAreTheText) {
  std::mt19937 random(5);
  for (const char* name : {"llama2", "llama3", "mistral", "qwen2", "unigram",
                           "unigram_bytes", "wordlevel"}) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer =
        Tokenizer::Load(kTokenizerFolder / name).value();
    int num_stopped = 0;
    for (int round = 0; round < 400; ++round) {
      std::vector<int32_t> ids(1 + random() % 12);
      for (int32_t& id : ids) {
        id = static_cast<int32_t>(
            random() % static_cast<uint32_t>(tokenizer.vocab_size()));
      }
      std::vector<std::string> stops;
      const std::string whole = tokenizer.Decode(ids, true).value();
      for (size_t at = random() % 6; at + 3 < whole.size(); at += 7) {
        const std::string stop = whole.substr(at, 3);
        if (Tokenizer::CheckText(stop).ok()) stops.push_back(stop);
      }
      if (round % 2 == 0) stops.clear();
      if (stops.size() > kMaxStops) continue;
      const ToldAnswer told = TellAnswer(tokenizer, ids, stops);
      ASSERT_EQ(JoinedTexts(told.tokens), told.text)
          << testing::PrintToString(ids);
      num_stopped += told.tokens.size() < ids.size() ? 1 : 0;
    }
    EXPECT_GE(num_stopped, 20);
  }
}

ShownToken Spelled(const std::string& text, bool is_open = false) {
  return {.text = text, .bytes = text, .is_open = is_open};
}

TEST(TokenTextsTest, ATokenWaitsForItsText) {
  TokenTexts texts;
  texts.Add(Spelled("ab"));
  EXPECT_TRUE(texts.Told("a").empty());
  texts.Add(Spelled(""));
  EXPECT_EQ(texts.Told("b").size(), 2u);
  // The end of a character may be the text's.
  texts.Add(Spelled("c", /*is_open=*/true));
  EXPECT_TRUE(texts.Told("c").empty());
  EXPECT_TRUE(texts.Told("\ufffd").empty());
  const auto rest = texts.End();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].text, "c\ufffd");
  EXPECT_TRUE(texts.End().empty());
}

TEST(TokenTextsTest, WhatAStopCutsOffIsNoTokensText) {
  TokenTexts texts;
  for (const char* text : {"on", "e s", "to", "p"}) texts.Add(Spelled(text));
  EXPECT_EQ(texts.Told("one ").size(), 1u);
  const auto rest = texts.End();
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest[0].text, "e ");
  EXPECT_EQ(rest[0].bytes, "e s");
  EXPECT_EQ(rest[1].text, "");
  EXPECT_EQ(rest[2].text, "");
}

// Those of a prompt, in the text that a client wrote.
std::vector<std::string> PromptTexts(const Tokenizer& tokenizer,
                                     const std::string& text,
                                     const std::vector<int32_t>& ids) {
  std::vector<GeneratedToken> scored;
  for (size_t i = 1; i < ids.size(); ++i) {
    scored.push_back({.token_id = ids[i], .logprob = -1, .top = {}});
  }
  const auto tokens = PromptTokens(text, ids, scored, tokenizer).value();
  EXPECT_EQ(JoinedTexts(tokens), text);
  EXPECT_TRUE(std::isnan(tokens[0].logprob));
  std::vector<std::string> texts;
  for (const ShownToken& token : tokens) texts.push_back(token.text);
  return texts;
}

TEST(TokenTextsTest, APromptsTokensArePartsOfItsText) {
  for (const char* name : {"llama2", "llama3", "mistral", "qwen2", "unigram",
                           "unigram_bytes", "wordlevel"}) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer =
        Tokenizer::Load(kTokenizerFolder / name).value();
    for (const bool adds : {true, false}) {
      for (const std::string text :
           {"the quick \xf0\x9f\xa6\x8a fox", "The  Fox",
            "e\xcc\x81 \xef\xac\x81", " x <s>y</s>",
            "<|begin_of_text|>hi<|eot_id|>", "a<|user|> b"}) {
        PromptTexts(tokenizer, text, tokenizer.Encode(text, adds).value());
      }
    }
  }
  // The added token before it is none of its text.
  const Tokenizer llama = Tokenizer::Load(kTokenizerFolder / "llama2").value();
  const auto ids = llama.Encode("the quick", true).value();
  const auto texts = PromptTexts(llama, "the quick", ids);
  EXPECT_EQ(texts[0], "");
  const std::string first = llama.TokenText(ids[1]).value();
  EXPECT_EQ("\u2581" + texts[1], first);
}

}  // namespace
}  // namespace winnow
