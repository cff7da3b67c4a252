// Vocabularies and random texts for tests of grammars.
#ifndef WINNOW_TEXT_GRAMMAR_GRAMMAR_CASE_H_
#define WINNOW_TEXT_GRAMMAR_GRAMMAR_CASE_H_

#include <random>
#include <string>
#include <vector>

#include "text/grammar/grammar.h"

namespace winnow {

// The id of the end token in PiecesTokenizer.
inline constexpr int32_t kPiecesEnd = 0;

// Token i + 1 is pieces[i]; decoding joins the pieces.
Tokenizer PiecesTokenizer(const std::vector<std::string>& pieces);
// Every printable character of ASCII, and "\n".
std::vector<std::string> AsciiPieces();

GrammarVocabulary VocabularyOf(const Tokenizer& tokenizer, int32_t end,
                               const GrammarLimits& limits = {});

// The tokens of the next mask, ascending; empty if the mask fails.
std::vector<int32_t> Allowed(GrammarMatcher& matcher, int vocab_size);

// Most drawn texts have fewer.
inline constexpr size_t kMaxDrawnTokens = 2000;

// Draws tokens uniformly among allowed ones, until nothing may follow or `end`
// is drawn; `end` is left out. Nothing after `max_tokens`.
std::optional<std::vector<int32_t>> DrawText(GrammarMatcher matcher,
                                             int vocab_size, int32_t end,
                                             size_t max_tokens,
                                             std::mt19937& random);

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_GRAMMAR_CASE_H_
