// TokenTexts: assigns the answer's text to its tokens.
#ifndef WINNOW_SERVE_ANSWER_TOKEN_TEXTS_H_
#define WINNOW_SERVE_ANSWER_TOKEN_TEXTS_H_

#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/request/request.h"
#include "serve/answer/answer_style.h"
#include "text/tokenize/detokenizer.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

// A token in shown form. `addition` returns the text that a token would add at
// its place.
using Addition = std::function<Result<TokenAddition>(int32_t token_id)>;
Result<ShownToken> ShowToken(const GeneratedToken& token,
                             const Addition& addition);

// Tokens of one answer that have arrived and are not yet sent. Their joined
// texts are the answer's text. The token that completes a character has all of
// it; earlier parts of the character have "". Tokens that a stop string cuts
// off have "". A token waits until its text is sent; an unfinished or skipped
// one waits for the next token. One thread at a time.
class TokenTexts {
 public:
  // Adds the next token. Its text is the text that it makes certain.
  void Add(ShownToken token);
  // Returns the tokens that need not wait any longer, now that `piece` was
  // added to the answer's text.
  std::vector<ShownToken> Told(std::string_view piece);
  // Ends the text and returns the rest, with the part of their texts that the
  // answer has.
  std::vector<ShownToken> End();

 private:
  std::deque<ShownToken> waiting_;
  int64_t num_waiting_bytes_ = 0;  // of their texts
  std::string untaken_;            // sent text that no returned token has
};

// The tokens of an echoed prompt, as parts of `text`, which they may spell
// differently. `scored`: all tokens but the first.
Result<std::vector<ShownToken>> PromptTokens(
    std::string_view text, std::span<const int32_t> token_ids,
    std::span<const GeneratedToken> scored, const Tokenizer& tokenizer);

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_TOKEN_TEXTS_H_
