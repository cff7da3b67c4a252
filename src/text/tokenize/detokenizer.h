// Tokens to text, one at a time.
#ifndef WINNOW_TEXT_TOKENIZE_DETOKENIZER_H_
#define WINNOW_TEXT_TOKENIZE_DETOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "text/tokenize/tokenizer.h"

// The Rust library's object (rust/winnow_text.h).
struct WinnowDetokenizer;

namespace winnow {

// The text that a token would add as the next one.
struct TokenAddition {
  std::string text;         // that would be certain: whole characters
  std::string bytes;        // its own, whatever stands before it
  bool is_skipped = false;  // no token, or a special one that is left out
  bool is_open = false;     // more text would be held back behind it
};

// The text of one sequence while its tokens arrive. All that Push and Finish
// returned, put together, equals Tokenizer::Decode of all ids; each piece is
// whole UTF-8 characters. A token costs what its own text costs, however long
// the sequence.
//
// Held back is what a later token can still change: the bytes of an unfinished
// character; a last token that is spelled otherwise inside a text than at its
// end. Byte tokens (<0xE6>) give each character with its last byte, and a
// replacement character for each byte that belongs to none, as SentencePiece
// does; Decode, as `tokenizers` does, replaces all bytes of such a run.
//
// Owns its state, and keeps the tokenizer's data alive; moved; copied by Clone.
// One thread at a time.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  // At the same place, and on its own from there.
  Detokenizer Clone() const;

  // Goes on behind `ids`: what will come is Decode of all ids, less Decode of
  // these. What that leaves of an unfinished character comes with its end. The
  // cost does not grow with `ids`. Fails as Push. REQUIRES that nothing was
  // pushed.
  Status Follow(std::span<const int32_t> ids);

  // Nothing stands before what comes next, and the decoder spells that
  // otherwise than behind other text.
  bool begins() const;

  // The decoder puts spaces between tokens, which are no token's own.
  bool puts_spaces() const;

  // The result that Push would have, and more. Changes nothing. Fails as Push.
  Result<TokenAddition> Peek(int32_t id) const;

  // Takes the next id; returns the text that is now certain, often "". Ids
  // without a token count as absent. Fails only where the tokenizer's decoder
  // cannot decode (a broken tokenizer.json).
  Result<std::string> Push(int32_t id);

  // Returns the rest. REQUIRES that it was not called before; nothing is
  // pushed afterwards.
  Result<std::string> Finish();

 private:
  struct Free {
    void operator()(WinnowDetokenizer* detokenizer) const;
  };

  using Handle = std::unique_ptr<WinnowDetokenizer, Free>;

  Detokenizer(Handle handle, std::string name)
      : handle_(std::move(handle)), name_(std::move(name)) {}

  Handle handle_;
  std::string name_;  // tokenizer.json's path, for messages
  bool finished_ = false;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOKENIZE_DETOKENIZER_H_
