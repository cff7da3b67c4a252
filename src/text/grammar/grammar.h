// Answers held to a grammar: which tokens keep a text within it.
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
  kJsonSchema,  // the text is a value that the schema describes
  kRegex,       // all of the text matches, in the syntax of Rust's `regex`
  kChoice,      // `source` is a JSON list of strings; the text is one of them
  kLark,        // Lark's syntax, as llguidance reads it
  kToolCalls,   // what ToolCallGrammar makes
};

struct Grammar {
  GrammarKind kind = GrammarKind::kJsonSchema;
  std::string source;
  // Of kJsonSchema: an expression of what may stand between a value's tokens,
  // which white space alone matches; "": nothing may. Where it is not said, one
  // space may, or one line end and what a pretty printer indents by: a small
  // model that has no bound goes on with white space for ever.
  std::optional<std::string> white_space = {};
};

// What errors of Compile have where `white_space` is wrong.
inline constexpr std::string_view kWhiteSpaceComplaint =
    "the pattern of white space";

// What a grammar may take; beyond it a grammar is refused, or a mask fails.
struct GrammarLimits {
  size_t max_bytes = size_t{256} << 10;  // of a source
  // Nodes of regular expressions: made at the beginning, and for one mask.
  uint64_t max_compile_work = 1'000'000;
  uint64_t max_mask_work = 100'000;
  // Of what a matcher and its clones have learned: 1 to 2 KiB each.
  size_t max_states = 50'000;
  // Of a thread's time for a mask, in the mean over a text.
  uint64_t max_mask_us = 5'000;
};

// What stands before an answer. A decoder may take a space off a text's
// beginning: the first token of an answer that begins one must bring it.
enum class AnswerPlace : uint8_t { kBeginsText, kFollowsText };

// Where one text stands in its grammar. Owns what it has learned of it, in
// common with its clones: all of them are used by one thread at a time.
class GrammarMatcher {
 public:
  // At the same place, and on its own from there.
  GrammarMatcher Clone() const;

  // Sets bit i % 32 of word i / 32 where token i may come next: the text is
  // then the beginning of one within the grammar, or, for a token that ends
  // texts, one within it. Ids that the vocabulary lacks may not. Fails, with
  // all bits 0, where no token may, and where the limits do not suffice; with
  // kIo where memory does not.
  Status Mask(std::span<uint32_t> words);
  // The token comes next. Fails where it may not.
  Status Accept(int32_t token_id);
  // Nothing may follow. Also where it has failed.
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
  size_t max_bytes_;  // that what it learns may take
};

// What the tokens of a model spell, so that texts of them can be held to
// grammars: byte-level vocabularies, those with byte tokens, and those whose
// tokens are pieces of text or words with spaces between.
//
// Owns the vocabulary as trees of bytes, and nothing of the
// tokenizer; moved, never copied. Compile may be called from several threads.
class GrammarVocabulary {
 public:
  // `vocab_size`: of the model's logits; `end_ids` end a text, none of them is
  // text. Fails where the decoder gives no text token by token.
  static Result<GrammarVocabulary> Create(const Tokenizer& tokenizer,
                                          int vocab_size,
                                          std::span<const int32_t> end_ids,
                                          const GrammarLimits& limits);

  // A matcher at the beginning of a text. Fails where the grammar is wrong,
  // too large, or no token may begin; with kIo where memory does not suffice.
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
