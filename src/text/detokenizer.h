// Tokens to text, one at a time.
#ifndef WINNOW_TEXT_DETOKENIZER_H_
#define WINNOW_TEXT_DETOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "text/tokenizer.h"

// The Rust library's object (rust/winnow_text.h).
struct WinnowDetokenizer;

namespace winnow {

// The text of one sequence while its tokens arrive. All that Push and Finish
// returned, put together, equals Tokenizer::Decode of all ids; each piece is
// whole UTF-8 characters. A token costs what its own text costs, however long
// the sequence.
//
// Held back is what a later token can still change: the bytes of an unfinished
// character; with byte fallback a whole run of byte tokens, which one bad byte
// turns into replacement characters; a last token that is spelled otherwise
// inside a text than at its end.
//
// Owns its state, and keeps the tokenizer's data alive; moved, never copied.
// One thread at a time.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

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

  std::unique_ptr<WinnowDetokenizer, Free> handle_;
  std::string name_;  // tokenizer.json's path, for messages
  bool finished_ = false;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_DETOKENIZER_H_
