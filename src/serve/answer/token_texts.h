// TokenTexts: which part of an answer's text each of its tokens is.
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

// How a token is shown where it might come next. `addition`: what that place's
// detokenizer makes of a token.
using Addition = std::function<Result<TokenAddition>(int32_t token_id)>;
Result<ShownToken> ShowToken(const GeneratedToken& token,
                             const Addition& addition);

// The tokens of one answer that have arrived and are not yet sent. Their texts,
// put together, are the answer's text. The token that completes a character has
// all of it; earlier parts of the character have "". Tokens that a stop string
// cuts off have "". A token waits until its text is sent; an unfinished or
// skipped one waits for the next token. One thread at a time.
class TokenTexts {
 public:
  // The next token; its text is what it makes certain.
  void Add(ShownToken token);
  // Answers with those that need wait no longer, now that the answer's text has
  // `piece` more.
  std::vector<ShownToken> Told(std::string_view piece);
  // No text will come: the rest, and of it what the answer's text has.
  std::vector<ShownToken> End();

 private:
  std::deque<ShownToken> waiting_;
  int64_t num_waiting_bytes_ = 0;  // of their texts
  std::string untaken_;            // told, and no token's that was taken
};

// The tokens of a prompt that an answer begins with, as parts of `text`, which
// they may spell otherwise than it was written. `scored`: all but the first.
Result<std::vector<ShownToken>> PromptTokens(
    std::string_view text, std::span<const int32_t> token_ids,
    std::span<const GeneratedToken> scored, const Tokenizer& tokenizer);

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_TOKEN_TEXTS_H_
