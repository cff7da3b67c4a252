// GrammarMatcher: finds the tokens that keep an answer within a grammar.
#ifndef WINNOW_TEXT_GRAMMAR_GRAMMAR_H_
#define WINNOW_TEXT_GRAMMAR_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenize/tokenizer.h"

// The Rust library's objects (rust/winnow_text.h).
struct WinnowMatcher;
struct WinnowVocabulary;

namespace winnow {

enum class GrammarKind : uint8_t {
  kJsonSchema,  // the text is a value of the schema
  kRegex,       // the whole text matches, in the syntax of Rust's `regex`
  kChoice,      // `source` is a JSON array of strings; the text is one of them
  kLark,        // Lark's syntax as llguidance reads it
  kToolCalls,   // the result of ToolCallGrammar
};

struct Grammar {
  GrammarKind kind = GrammarKind::kJsonSchema;
  std::string source;
  // For kJsonSchema: a regular expression for the white space between a value's
  // tokens; "" allows none. By default one space is allowed, or one line end
  // with indentation. Without a bound, small models can write white space for
  // ever.
  std::optional<std::string> white_space = {};
};

// Begins the error of Compile if `white_space` is wrong.
inline constexpr std::string_view kWhiteSpaceComplaint =
    "the pattern of white space";

// Resource limits. Compile refuses a grammar beyond them, or a mask fails.
struct GrammarLimits {
  size_t max_bytes = size_t{256} << 10;  // of a source
  // Nodes of regular expressions, for compiling and for one mask.
  uint64_t max_compile_work = 1'000'000;
  uint64_t max_mask_work = 100'000;
  // States that a matcher and its clones keep, of 1 to 2 KiB each.
  size_t max_states = 50'000;
  // A thread's time for one mask, averaged over a text.
  uint64_t max_mask_us = 5'000;
};

// Whether an answer begins the text or follows other text. A decoder may drop a
// space at a text's beginning, so the first token of an answer that begins one
// must carry it.
enum class AnswerPlace : uint8_t { kBeginsText, kFollowsText };

// A position of one text in its grammar. Owns the learned states together with
// its clones, so one thread at a time uses all of them.
class GrammarMatcher {
 public:
  // A matcher at the same position that advances on its own.
  GrammarMatcher Clone() const;

  // Sets bit i % 32 of word i / 32 if token i may come next. The text is then
  // the beginning of a text of the grammar; before a token that ends texts, it
  // is complete. Bits of ids that the vocabulary lacks are 0. Fails, with all
  // bits 0, if no token may come next or the limits do not suffice. Fails with
  // kIo if memory does not suffice.
  Status Mask(std::span<uint32_t> words);
  // Appends the token. Fails if the token may not come next.
  Status Accept(int32_t token_id);
  // True if nothing may follow, or if the matcher has failed.
  bool complete() const;

 private:
  friend class GrammarVocabulary;
  struct Free {
    void operator()(WinnowMatcher* matcher) const;
  };
  using Handle = std::unique_ptr<WinnowMatcher, Free>;

  GrammarMatcher(Handle handle, size_t max_bytes)
      : handle_(std::move(handle)), max_bytes_(max_bytes) {}

  Handle handle_;
  size_t max_bytes_;  // limit for the learned states
};

// The spelling of a model's tokens, for holding texts to grammars. Supports
// byte-level vocabularies, vocabularies with byte tokens, and vocabularies of
// text pieces or of words with spaces between.
//
// Owns the vocabulary as trees of bytes, and nothing of the tokenizer; moved,
// never copied. Several threads may call Compile at once.
class GrammarVocabulary {
 public:
  // `vocab_size` is that of the model's logits. `end_ids` end a text; none of
  // them is text. Fails if the decoder cannot give text token by token.
  static Result<GrammarVocabulary> Create(const Tokenizer& tokenizer,
                                          int vocab_size,
                                          std::span<const int32_t> end_ids,
                                          const GrammarLimits& limits);

  // A matcher at the beginning of a text. Fails if the grammar is wrong or too
  // large, or if no token may begin. Fails with kIo if memory does not suffice.
  Result<GrammarMatcher> Compile(
      const Grammar& grammar,
      AnswerPlace place = AnswerPlace::kBeginsText) const;

 private:
  struct Free {
    void operator()(WinnowVocabulary* vocabulary) const;
  };
  using Handle = std::unique_ptr<WinnowVocabulary, Free>;

  GrammarVocabulary(Handle handle, int vocab_size, size_t max_states)
      : handle_(std::move(handle)),
        vocab_size_(vocab_size),
        max_states_(max_states) {}

  Handle handle_;
  int vocab_size_;
  size_t max_states_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_GRAMMAR_H_
