// Detokenizer: turns tokens into text, one at a time.
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
  std::string text;         // certain text: whole characters
  std::string bytes;        // its own bytes, whatever stands before it
  bool is_skipped = false;  // no token, or a special token that is left out
  bool is_open = false;     // more text would be held back behind it
};

// The text of one sequence while its tokens arrive. All results of Push and
// Finish joined equal Tokenizer::Decode of all ids. Each piece consists of
// whole UTF-8 characters. The cost of a token depends on its own text, not on
// the sequence's length.
//
// Text that a later token can still change is held back. That is an unfinished
// character, or a last token that is spelled differently inside a text. Byte
// tokens (<0xE6>) give each character with its last byte. A byte that belongs
// to no character gives a replacement character, as in SentencePiece. Decode
// replaces all bytes of such a run, as in `tokenizers`.
//
// Owns its state and keeps the tokenizer's data alive; moved; copied by Clone.
// One thread at a time.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  // A detokenizer at the same position that advances on its own.
  Detokenizer Clone() const;

  // Continues behind `ids`: later text is Decode of all ids, less Decode of
  // `ids`. An unfinished character of `ids` comes with its last byte. The cost
  // does not grow with `ids`. Fails as Push. REQUIRES: nothing was pushed.
  Status Follow(std::span<const int32_t> ids);

  // True if nothing stands before the next token and the decoder spells it
  // differently for that.
  bool begins() const;

  // True if the decoder puts spaces between tokens.
  bool puts_spaces() const;

  // The result that Push would have, and more. Changes nothing. Fails as Push.
  Result<TokenAddition> Peek(int32_t id) const;

  // Takes the next id and returns the newly certain text, often "". An id
  // without a token counts as absent. Fails only if the tokenizer's decoder
  // cannot decode (a broken tokenizer.json).
  Result<std::string> Push(int32_t id);

  // Ends the text and returns the rest. REQUIRES: not called before. No Push
  // may follow.
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
