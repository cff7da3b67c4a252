// Tokenizer: turns text into tokens and back.
#ifndef WINNOW_TEXT_TOKENIZE_TOKENIZER_H_
#define WINNOW_TEXT_TOKENIZE_TOKENIZER_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// The Rust library's object (rust/winnow_text.h).
struct WinnowTokenizer;

namespace winnow {

// Files that a folder may have beside tokenizer.json and tokenizer_config.json.
struct OlderTokenFiles {
  std::optional<std::string> special_map_json = {};  // special_tokens_map.json
  std::optional<std::string> added_json = {};        // added_tokens.json
};

// Gives the ids and texts of Hugging Face's `tokenizers`, with the special
// tokens that its `transformers` adds when it loads the folder
// (rust/src/special_tokens.rs).
//
// Owns the loaded tokenizer; moved, never copied. Several threads may call
// const methods at once. Ids are in [0, vocab_size()); an id there may lack a
// token. Ignores truncation and padding in tokenizer.json, which are left from
// training: a prompt is never cut silently.
class Tokenizer {
 public:
  // Reads `folder`/tokenizer.json and, if they exist, tokenizer_config.json,
  // special_tokens_map.json and added_tokens.json. The latter name added and
  // special tokens, the beginning and the end token.
  static Result<Tokenizer> Load(const std::filesystem::path& folder);

  // As Load, from the files' contents. `folder` appears in messages alone.
  static Result<Tokenizer> FromJson(
      const std::filesystem::path& folder, const std::string& tokenizer_json,
      const std::optional<std::string>& tokenizer_config_json,
      const OlderTokenFiles& older = {});

  // Fails, with the offset of the first bad byte, if `text` is not UTF-8.
  // Encode fails the same way; this needs no tokenizer.
  static Status CheckText(std::string_view text);

  // The ids of `text`. `add_special_tokens` adds the tokens that the tokenizer
  // puts around a text; a chat template's text has them already. Special tokens
  // spelled inside the text become their ids. Fails as CheckText does. Fails
  // with kCancelled once another thread sets `is_left`, which is read before
  // each word and between passes over the whole text.
  Result<std::vector<int32_t>> Encode(
      std::string_view text, bool add_special_tokens,
      const std::atomic<bool>* is_left = nullptr) const;

  // The text of `ids`. An id without a token counts as absent. In a run of byte
  // tokens that is not UTF-8, every byte becomes a replacement character.
  Result<std::string> Decode(std::span<const int32_t> ids,
                             bool skip_special_tokens) const;

  // The greatest number of text bytes that one token stands for, so N tokens
  // stand for at most N times as many. None if nothing bounds it, because an
  // unknown word is one token or text is left out.
  std::optional<int64_t> max_token_bytes() const { return max_token_bytes_; }

  // One more than the highest id.
  int32_t vocab_size() const { return vocab_size_; }

  // A token as spelled in the vocabulary ("Ġthe"), and the reverse.
  std::optional<std::string> TokenText(int32_t id) const;
  std::optional<int32_t> IdOf(std::string_view token) const;

  // True if `id` is left out of text when special tokens are skipped.
  bool IsSpecial(int32_t id) const;

  // The files' bos_token and eos_token, if the vocabulary has them.
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  // One line for each part of the files beside tokenizer.json that was left
  // out, with the reason.
  std::vector<std::string> Notes() const;

 private:
  friend class Detokenizer;
  friend class GrammarVocabulary;
  struct Free {
    void operator()(WinnowTokenizer* tokenizer) const;
  };
  using Handle = std::unique_ptr<WinnowTokenizer, Free>;

  Tokenizer(Handle handle, std::string name);

  Handle handle_;
  std::string name_;  // tokenizer.json's path, for messages
  int32_t vocab_size_;
  std::optional<int64_t> max_token_bytes_;
  std::optional<int32_t> bos_id_;
  std::optional<int32_t> eos_id_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOKENIZE_TOKENIZER_H_
