// Text to tokens and back.
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

// What a folder may have beside tokenizer.json and tokenizer_config.json.
struct OlderTokenFiles {
  std::optional<std::string> special_map_json = {};  // special_tokens_map.json
  std::optional<std::string> added_json = {};        // added_tokens.json
};

// What a folder's files make of a text: the ids and the text that Hugging
// Face's `tokenizers` gives, with the special tokens that its `transformers`
// adds where it loads the folder (rust/src/special_tokens.rs).
//
// Owns the loaded tokenizer; moved, never copied. const methods may be called
// from several threads at once. Ids are in [0, vocab_size()); not every id
// there need have a token. What training left of truncation and padding in
// tokenizer.json is ignored: a prompt is never cut silently.
class Tokenizer {
 public:
  // Reads `folder`/tokenizer.json and, if there, tokenizer_config.json,
  // special_tokens_map.json and added_tokens.json (for added and special
  // tokens, the beginning and the end token).
  static Result<Tokenizer> Load(const std::filesystem::path& folder);

  // The same from the files' contents. `folder` is only named in messages.
  static Result<Tokenizer> FromJson(
      const std::filesystem::path& folder, const std::string& tokenizer_json,
      const std::optional<std::string>& tokenizer_config_json,
      const OlderTokenFiles& older = {});

  // Fails where `text` is not UTF-8, naming the offset of the first bad byte:
  // what Encode says of it, without a tokenizer.
  static Status CheckText(std::string_view text);

  // The ids of `text`. `add_special_tokens`: with those that the tokenizer
  // puts around a text (a chat template's text has them already). Special
  // tokens spelled inside the text become their ids. Fails as CheckText does,
  // and with kCancelled once another thread sets `is_left`, which is looked at
  // before each word and between what is done to the text as a whole.
  Result<std::vector<int32_t>> Encode(
      std::string_view text, bool add_special_tokens,
      const std::atomic<bool>* is_left = nullptr) const;

  // The text of `ids`. Ids without a token count as absent. Of a run of byte
  // tokens that is not UTF-8 every byte is a replacement character.
  Result<std::string> Decode(std::span<const int32_t> ids,
                             bool skip_special_tokens) const;

  // The most bytes of a text that one token stands for, so that N tokens
  // have N times as many. None where nothing bounds it: unknown words
  // of any length are one token, or some of the text is left out.
  std::optional<int64_t> max_token_bytes() const { return max_token_bytes_; }

  // One more than the highest id.
  int32_t vocab_size() const { return vocab_size_; }

  // A token as the vocabulary spells it ("Ġthe"), and back.
  std::optional<std::string> TokenText(int32_t id) const;
  std::optional<int32_t> IdOf(std::string_view token) const;

  // Whether `id` is left out of text where special tokens are skipped.
  bool IsSpecial(int32_t id) const;

  // The files' bos_token and eos_token, where they are in the vocabulary.
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  // What of the files beside tokenizer.json was left out, and why: a line each.
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
