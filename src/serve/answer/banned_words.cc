#include "serve/answer/banned_words.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {

Result<std::vector<std::vector<int32_t>>> EncodeBannedWords(
    const std::vector<std::string>& words, const Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> encoded;
  for (const std::string& word : words) {
    const std::string bare =
        word.substr(std::min(word.find_first_not_of(' '), word.size()));
    ASSIGN_OR_RETURN(std::vector<int32_t> first,
                     tokenizer.Encode(bare, /*add_special_tokens=*/false));
    ASSIGN_OR_RETURN(
        std::vector<int32_t> later,
        tokenizer.Encode(" " + bare, /*add_special_tokens=*/false));
    const bool differs = !first.empty() && later.size() == first.size() &&
                         later.front() != first.front();
    if (differs) encoded.push_back(std::move(later));
    if (!first.empty()) encoded.push_back(std::move(first));
  }
  return encoded;
}

BannedWords::BannedWords(std::vector<std::vector<int32_t>> words,
                         std::shared_ptr<TokenConstraint> inner)
    : words_(std::move(words)), inner_(std::move(inner)) {
  for (const std::vector<int32_t>& word : words_) {
    CHECK(!word.empty());
    num_kept_ = std::max(num_kept_, word.size() - 1);
  }
}

Status BannedWords::Mask(std::span<uint32_t> words) {
  if (inner_) RETURN_IF_ERROR(inner_->Mask(words));
  for (const std::vector<int32_t>& word : words_) {
    const std::span<const int32_t> before(word.data(), word.size() - 1);
    if (before.size() > last_.size()) continue;
    const auto end = last_.end() - static_cast<std::ptrdiff_t>(before.size());
    if (!std::equal(end, last_.end(), before.begin())) continue;
    const auto id = static_cast<uint32_t>(word.back());
    if (id / 32 < words.size()) words[id / 32] &= ~(uint32_t{1} << (id % 32));
  }
  return Ok{};
}

void BannedWords::Accept(int32_t token_id) {
  if (inner_) inner_->Accept(token_id);
  last_.push_back(token_id);
  if (last_.size() > num_kept_) last_.erase(last_.begin());
}

}  // namespace winnow
