// What tests of grammars have in common: vocabularies that they spell out, and
// texts drawn at random within a grammar.
#ifndef WINNOW_TEXT_GRAMMAR_GRAMMAR_CASE_H_
#define WINNOW_TEXT_GRAMMAR_GRAMMAR_CASE_H_

#include <random>
#include <string>
#include <vector>

#include "text/grammar/grammar.h"

namespace winnow {

// The id of what ends a text in PiecesTokenizer.
inline constexpr int32_t kPiecesEnd = 0;

// Token i + 1 is pieces[i]; texts are joined as they are.
Tokenizer PiecesTokenizer(const std::vector<std::string>& pieces);
// Every printable character of ASCII, and "\n".
std::vector<std::string> AsciiPieces();

GrammarVocabulary VocabularyOf(const Tokenizer& tokenizer, int32_t end,
                               const GrammarLimits& limits = {});

// The tokens of the next mask, ascending; empty where it fails.
std::vector<int32_t> Allowed(GrammarMatcher& matcher, int vocab_size);

// More than most drawn texts have.
inline constexpr size_t kMaxDrawnTokens = 2000;

// Draws tokens, each that is allowed as likely as any other, until nothing may
// follow or `end` is drawn, which is left out. Empty after `max_tokens`.
std::optional<std::vector<int32_t>> DrawText(GrammarMatcher matcher,
                                             int vocab_size, int32_t end,
                                             size_t max_tokens,
                                             std::mt19937& random);

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_GRAMMAR_CASE_H_
