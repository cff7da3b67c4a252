#include "serve/answer/token_texts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "text/tokenize/answer_text.h"

namespace winnow {
namespace {

// How many bytes of `text` its first `num_characters` have, or all of it.
size_t BytesOf(std::string_view text, int64_t num_characters) {
  size_t num_bytes = 0;
  while (num_bytes < text.size() && num_characters > 0) {
    ++num_bytes;
    const bool is_whole =
        num_bytes == text.size() ||
        (static_cast<unsigned char>(text[num_bytes]) & 0xC0) != 0x80;
    if (is_whole) --num_characters;
  }
  return num_bytes;
}

std::string_view WithoutSpaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

// How many bytes of `text`, which goes on with a token that a decoder spells
// `piece`, are the token's.
size_t BytesOfPiece(std::string_view text, std::string_view piece) {
  if (text.starts_with(piece)) return piece.size();
  // A decoder may put a space that nobody wrote, or take one away.
  const std::string_view word = WithoutSpaces(piece);
  const std::string_view rest = WithoutSpaces(text);
  if (!word.empty() && rest.starts_with(word)) {
    return text.size() - rest.size() + word.size();
  }
  return BytesOf(text, NumCharacters(piece));
}

}  // namespace

Result<ShownToken> ShowToken(const GeneratedToken& token,
                             const Addition& addition) {
  const auto show = [&](int32_t token_id, float logprob) -> Result<ShownToken> {
    ASSIGN_OR_RETURN(TokenAddition added, addition(token_id));
    return ShownToken{.token_id = token_id,
                      .text = std::move(added.text),
                      .bytes = std::move(added.bytes),
                      .is_skipped = added.is_skipped,
                      .is_open = added.is_open,
                      .logprob = logprob};
  };
  ASSIGN_OR_RETURN(ShownToken shown, show(token.token_id, token.logprob));
  for (const TokenLogprob& other : token.top) {
    ASSIGN_OR_RETURN(shown.top.emplace_back(),
                     show(other.token_id, other.logprob));
  }
  return shown;
}

void TokenTexts::Add(ShownToken token) {
  num_waiting_bytes_ += std::ssize(token.text);
  waiting_.push_back(std::move(token));
}

std::vector<ShownToken> TokenTexts::Told(std::string_view piece) {
  untaken_ += piece;
  // Behind the last token that need not wait.
  auto end = waiting_.begin();
  size_t num_told = 0, num_bytes = 0;
  for (auto token = waiting_.begin(); token != waiting_.end(); ++token) {
    num_bytes += token->text.size();
    if (num_bytes > untaken_.size()) break;
    if (token->is_open || token->is_skipped) continue;
    end = std::next(token);
    num_told = num_bytes;
  }
  std::vector<ShownToken> told(std::make_move_iterator(waiting_.begin()),
                               std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  num_waiting_bytes_ -= static_cast<int64_t>(num_told);
  untaken_.erase(0, num_told);
  return told;
}

std::vector<ShownToken> TokenTexts::End() {
  std::string_view left = untaken_;
  const auto last = std::ranges::find_if_not(waiting_.rbegin(), waiting_.rend(),
                                             &ShownToken::is_skipped);
  const bool has_more = std::ssize(untaken_) > num_waiting_bytes_;
  for (ShownToken& token : waiting_) {
    const bool is_last = last != waiting_.rend() && &token == &*last;
    const size_t num_own = is_last && has_more
                               ? left.size()
                               : std::min(token.text.size(), left.size());
    token.text = left.substr(0, num_own);
    left.remove_prefix(num_own);
  }
  std::vector<ShownToken> rest(std::make_move_iterator(waiting_.begin()),
                               std::make_move_iterator(waiting_.end()));
  *this = {};
  return rest;
}

Result<std::vector<ShownToken>> PromptTokens(
    std::string_view text, std::span<const int32_t> token_ids,
    std::span<const GeneratedToken> scored, const Tokenizer& tokenizer) {
  CHECK(scored.size() + 1 == token_ids.size(), "scored={} tokens={}",
        scored.size(), token_ids.size());
  std::vector<ShownToken> shown;
  Detokenizer before(tokenizer, /*skip_special_tokens=*/false);
  for (size_t i = 0; i < token_ids.size(); ++i) {
    const int32_t id = token_ids[i];
    const GeneratedToken first = {
        .token_id = id, .logprob = std::nanf(""), .top = {}};
    ShownToken& token = shown.emplace_back();
    ASSIGN_OR_RETURN(token, ShowToken(i == 0 ? first : scored[i - 1],
                                      [&before](int32_t each) {
                                        return before.Peek(each);
                                      }));
    const std::string name = tokenizer.TokenText(id).value_or("");
    token.is_skipped = tokenizer.IsSpecial(id) && !text.starts_with(name);
    size_t num_own = 0;
    if (!token.is_skipped) {
      ASSIGN_OR_RETURN(const std::string piece, before.Push(id));
      num_own =
          tokenizer.IsSpecial(id) ? name.size() : BytesOfPiece(text, piece);
    }
    token.text = text.substr(0, num_own);
    text.remove_prefix(num_own);
  }
  // The answer's begin where the prompt's text ends.
  shown.back().text += text;
  return shown;
}

}  // namespace winnow
