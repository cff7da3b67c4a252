// BannedWords: what an answer may not say (vLLM's bad_words), as the engine
// asks it.
#ifndef WINNOW_SERVE_ANSWER_BANNED_WORDS_H_
#define WINNOW_SERVE_ANSWER_BANNED_WORDS_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/request/token_constraint.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

// The tokens of each word, at a text's beginning and behind a space. As vLLM
// has it, the second counts where it is another token in place of the first
// one, and as many; other ways to spell a word are not found.
Result<std::vector<std::vector<int32_t>>> EncodeBannedWords(
    const std::vector<std::string>& words, const Tokenizer& tokenizer);

// Of one answer: the last token of a word is not drawn where those before it
// were. Owns what it was made of.
class BannedWords : public TokenConstraint {
 public:
  // `words`: none is empty. `inner`: what else holds the answer, or null.
  BannedWords(std::vector<std::vector<int32_t>> words,
              std::shared_ptr<TokenConstraint> inner);

  Status Mask(std::span<uint32_t> words) override;
  void Accept(int32_t token_id) override;
  bool complete() const override { return inner_ && inner_->complete(); }

 private:
  const std::vector<std::vector<int32_t>> words_;
  const std::shared_ptr<TokenConstraint> inner_;
  size_t num_kept_ = 0;             // of the longest word but its last
  std::vector<int32_t> last_ = {};  // tokens that were drawn
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_BANNED_WORDS_H_
