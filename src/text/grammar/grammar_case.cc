#include "text/grammar/grammar_case.h"

#include <nlohmann/json.hpp>

namespace winnow {

using nlohmann::json;

Tokenizer PiecesTokenizer(const std::vector<std::string>& pieces) {
  json vocab = {{"</s>", kPiecesEnd}};
  for (const std::string& piece : pieces) {
    const size_t id = vocab.size();
    vocab[piece] = id;
  }
  const json end = {{"id", kPiecesEnd},   {"content", "</s>"},
                    {"special", true},    {"lstrip", false},
                    {"rstrip", false},    {"single_word", false},
                    {"normalized", false}};
  const json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", {end}},
      {"decoder", {{"type", "Fuse"}}},
      {"model",
       {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "</s>"}}}};
  return Tokenizer::FromJson("dir", tokenizer.dump(), {}).value();
}

std::vector<std::string> AsciiPieces() {
  std::vector<std::string> pieces = {"\n"};
  for (char c = ' '; c <= '~'; ++c) pieces.emplace_back(1, c);
  return pieces;
}

GrammarVocabulary VocabularyOf(const Tokenizer& tokenizer, int32_t end,
                               const GrammarLimits& limits) {
  const std::vector<int32_t> ends = {end};
  return GrammarVocabulary::Create(tokenizer, tokenizer.vocab_size(), ends,
                                   limits)
      .value();
}

std::vector<int32_t> Allowed(GrammarMatcher& matcher, int vocab_size) {
  std::vector<uint32_t> words((static_cast<size_t>(vocab_size) + 31) / 32);
  std::vector<int32_t> allowed;
  const Status asked = matcher.Mask(words);
  for (int32_t id = 0; id < vocab_size; ++id) {
    const auto bit = static_cast<size_t>(id);
    if ((words[bit / 32] >> (bit % 32) & 1) != 0) allowed.push_back(id);
  }
  CHECK(asked.ok() == !allowed.empty(), "allowed={}", allowed.size());
  return allowed;
}

std::optional<std::vector<int32_t>> DrawText(GrammarMatcher matcher,
                                             int vocab_size, int32_t end,
                                             size_t max_tokens,
                                             std::mt19937& random) {
  std::vector<int32_t> text;
  while (!matcher.complete()) {
    const std::vector<int32_t> allowed = Allowed(matcher, vocab_size);
    if (allowed.empty() || text.size() == max_tokens) return std::nullopt;
    const int32_t token = allowed[random() % allowed.size()];
    if (!matcher.Accept(token).ok()) return std::nullopt;
    if (token != end) text.push_back(token);
  }
  return text;
}

}  // namespace winnow
