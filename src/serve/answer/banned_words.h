// BannedWords: the words that an answer must not contain (vLLM's bad_words), as
// a TokenConstraint.
#ifndef WINNOW_SERVE_ANSWER_BANNED_WORDS_H_
#define WINNOW_SERVE_ANSWER_BANNED_WORDS_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/request/token_constraint.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

// The tokens of each word, at a text's beginning and behind a space. As in
// vLLM, the second spelling counts only if it has as many tokens and its first
// token differs. Other spellings of a word are not found.
Result<std::vector<std::vector<int32_t>>> EncodeBannedWords(
    const std::vector<std::string>& words, const Tokenizer& tokenizer);

// For one answer: forbids the last token of a word if the tokens before it have
// just been drawn. Owns its arguments.
class BannedWords : public TokenConstraint {
 public:
  // `words`: none is empty. `inner`: a further constraint of the answer, or
  // null.
  BannedWords(std::vector<std::vector<int32_t>> words,
              std::shared_ptr<TokenConstraint> inner);

  Status Mask(std::span<uint32_t> words) override;
  void Accept(int32_t token_id) override;
  bool complete() const override { return inner_ && inner_->complete(); }

 private:
  const std::vector<std::vector<int32_t>> words_;
  const std::shared_ptr<TokenConstraint> inner_;
  size_t num_kept_ = 0;  // length of the longest word without its last token
  std::vector<int32_t> last_ = {};  // the last drawn tokens
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_BANNED_WORDS_H_
